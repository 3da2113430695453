// The text of server-sent events, as the HTML standard has it.

type ServerSentEvent = {
  /** Left out where a client that loses its connection here must not resume. */
  readonly id?: number;
  readonly type: string;
  readonly data: unknown;
};

export function eventText({ id, type, data }: ServerSentEvent): string {
  const name = /^[a-z]\w{0,63}$/i.test(type) ? type : "unknown";
  // JSON has no raw line breaks, so that the data is one line whatever it holds.
  return `${id === undefined ? "" : `id: ${id}\n`}event: ${name}\ndata: ${JSON.stringify(data)}\n\n`;
}

/** How long to wait before connecting again; and an id without an event, so that not even a quiet stream loses its place. */
export function openingText({ retryMs, id }: { readonly retryMs: number; readonly id?: number }): string {
  return `retry: ${retryMs}\n${id === undefined ? "" : `id: ${id}\n`}\n`;
}

export function commentText(text: string): string {
  return `: ${text}\n\n`;
}
