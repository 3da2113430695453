// Finds the operation that a request asks for, by its method and its path.
import type { Route } from "../api/route.ts";
import { type Operation, routes } from "../api/routes.ts";
import type { Failure } from "./handler.ts";

export type Router = {
  find(method: string, url: string): Found | NotFound;
};

export type Found = {
  readonly kind: "found";
  readonly operation: Operation;
  readonly params: Readonly<Record<string, string>>;
  /** What follows the question mark. */
  readonly query: string;
};

type NotFound = { readonly kind: "not_found"; readonly failure: Failure };

/** One part of a path, and what may follow it. */
type Branch = {
  readonly fixed: Map<string, Branch>;
  /** Of any spelling: the value of a parameter. */
  any: Branch | undefined;
  /** What is asked for where the path ends here, by method. */
  readonly ends: Map<string, { readonly operation: Operation; readonly names: readonly string[] }>;
};

export function createRouter(served: readonly Operation[]): Router {
  const root = emptyBranch();
  for (const operation of served) addRoute(root, operation);
  return {
    find(asking, url) {
      const method = asking === "HEAD" ? "GET" : asking;
      const target = url.startsWith("/") ? url : url.replace(absoluteForm, "/");
      const pathEnd = endOfPath(target);
      const path = pathEnd === target.length ? target : target.slice(0, pathEnd);
      const isEscaped = path.includes("%");
      if (isEscaped && !isSpeltCorrectly(path)) return badlySpelt;
      const values: string[] = [];
      const end = path.startsWith("/") ? follow({ path, isEscaped, method, values }, root, 1) : undefined;
      const asked = end?.ends.get(method);
      if (asked === undefined) return { kind: "not_found", failure: unroutable(root, path, isEscaped) };
      const query = pathEnd === target.length ? "" : target.slice(pathEnd + 1);
      return { kind: "found", operation: asked.operation, params: paramsOf(asked.names, values), query };
    },
  };
}

const absoluteForm = /^https?:\/\/[^/]*\//i;

const badlySpelt: NotFound = {
  kind: "not_found",
  failure: { kind: "invalid_request", detail: "the path is not spelt correctly" },
};

const emptyBranch = (): Branch => ({ fixed: new Map(), any: undefined, ends: new Map() });

function addRoute(root: Branch, operation: Operation): void {
  const { method, path }: Route = routes[operation];
  const names: string[] = [];
  let branch = root;
  for (const part of path.slice(1).split("/")) {
    if (part.startsWith("{")) {
      names.push(part.slice(1, -1));
      branch.any ??= emptyBranch();
      branch = branch.any;
    } else {
      const next = branch.fixed.get(part) ?? emptyBranch();
      branch.fixed.set(part, next);
      branch = next;
    }
  }
  branch.ends.set(method, { operation, names });
}

/** A fragment has no business in a request; what follows its mark is no part of the path either. */
function endOfPath(target: string): number {
  const question = target.indexOf("?");
  const end = question === -1 ? target.length : question;
  const hash = target.indexOf("#");
  return hash === -1 || hash > end ? end : hash;
}

function isSpeltCorrectly(path: string): boolean {
  try {
    decodeURIComponent(path);
    return true;
  } catch {
    return false;
  }
}

/** Paths hold ids of up to 255 characters, each of which may be spelt as three. */
const partCharactersMax = 1_024;

type Walk = {
  readonly path: string;
  readonly isEscaped: boolean;
  readonly method: string;
  /** Of the parameters passed so far. */
  readonly values: string[];
};

/** A fixed part goes before a parameter of the same spelling, unless the path does not go on after it. */
function follow(walk: Walk, branch: Branch, from: number): Branch | undefined {
  const { path, values } = walk;
  if (from > path.length) return branch.ends.has(walk.method) ? branch : undefined;
  const slash = path.indexOf("/", from);
  const end = slash === -1 ? path.length : slash;
  const written = path.slice(from, end);
  const part = walk.isEscaped ? decodeURIComponent(written) : written;
  const fixed = branch.fixed.get(part);
  const found = fixed === undefined ? undefined : follow(walk, fixed, end + 1);
  if (found !== undefined || branch.any === undefined) return found;
  if (written === "" || written.length > partCharactersMax) return undefined;
  values.push(part);
  const any = follow(walk, branch.any, end + 1);
  if (any === undefined) values.pop();
  return any;
}

function paramsOf(names: readonly string[], values: readonly string[]): Readonly<Record<string, string>> {
  const params: Record<string, string> = {};
  for (let index = 0; index < names.length; index += 1)
    params[names[index] as string] = values[index] as string;
  return params;
}

/** Tells which methods the path has, whatever other paths would fit as well. */
function unroutable(root: Branch, path: string, isEscaped: boolean): Failure {
  const methods = new Set<string>();
  for (const method of ["GET", "POST", "PUT", "PATCH", "DELETE"]) {
    const walk = { path, isEscaped, method, values: [] };
    if (path.startsWith("/") && follow(walk, root, 1) !== undefined) {
      methods.add(method);
      if (method === "GET") methods.add("HEAD");
    }
  }
  if (methods.size === 0) return { kind: "route_not_found" };
  return { kind: "method_not_allowed", headers: { allow: [...methods].join(", ") } };
}
