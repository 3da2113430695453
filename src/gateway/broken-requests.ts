// What is not even HTTP, or took too long: there is no request to answer, only a connection to end, after those that were whole.
import { type ServerResponse, STATUS_CODES } from "node:http";
import type { Socket } from "node:net";

/** By connection, in the order in which they came; those that are answered go when the next one comes. */
const begun = new WeakMap<Socket, ServerResponse[]>();

/** To be called when a request's head has been read. */
export function noteRequest(socket: Socket, response: ServerResponse): void {
  const responses = begun.get(socket);
  if (responses === undefined) {
    begun.set(socket, [response]);
    return;
  }
  if (responses.every(isAnswered)) responses.length = 0;
  responses.push(response);
}

/** No request is under way on it: all are answered, or none has come as a whole. */
export function isBetweenRequests(socket: Socket): boolean {
  return begun.get(socket)?.every(isAnswered) ?? true;
}

/**
 * A client takes the first answer on its connection for that to its first request. What is broken must not be answered before the
 * requests that came whole before it: a start that was made would look refused.
 */
export function answerBrokenRequest(error: Error & { readonly code?: string }, socket: Socket): void {
  // What fails before or in the TLS handshake cannot be answered in HTTP.
  if (error.code === "ECONNRESET" || isTlsFailure(error)) {
    socket.destroy();
    return;
  }
  const whole = begun.get(socket)?.findLast((response) => response.req.complete && !isAnswered(response));
  if (whole === undefined) endWith(socket, statusOf(error));
  else whole.once("close", () => endWith(socket, statusOf(error)));
}

function isTlsFailure({ code = "" }: { readonly code?: string }): boolean {
  return code.startsWith("ERR_SSL_") || code.startsWith("ERR_TLS_");
}

function isAnswered(response: ServerResponse): boolean {
  return response.writableFinished || response.destroyed;
}

const statuses: Readonly<Record<string, number>> = {
  ERR_HTTP_REQUEST_TIMEOUT: 408,
  HPE_HEADER_OVERFLOW: 431,
  HPE_CHUNK_EXTENSIONS_OVERFLOW: 413,
};

function statusOf({ code = "" }: { readonly code?: string }): number {
  return statuses[code] ?? 400;
}

function endWith(socket: Socket, status: number): void {
  if (socket.destroyed || !socket.writable) socket.destroy();
  else
    socket.end(
      `HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n`,
    );
}
