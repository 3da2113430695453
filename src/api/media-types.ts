// Which kinds of text a request's body may be, and how they are called.
import type { Route } from "./route.ts";

export const jsonMediaType = "application/json";

/** The first is the registered one (RFC 9512); the others are what programs send. */
export const yamlMediaTypes = ["application/yaml", "text/yaml", "application/x-yaml", "text/x-yaml"] as const;

export function mediaTypesOf({ takesYaml }: Pick<Route, "takesYaml">): readonly string[] {
  return takesYaml === true ? [jsonMediaType, ...yamlMediaTypes] : [jsonMediaType];
}

/** By a Content-Type header, whatever parameters it has. */
export function isYamlType(contentType: string | undefined): boolean {
  const [essence = ""] = (contentType ?? "").split(";", 1);
  return (yamlMediaTypes as readonly string[]).includes(essence.trim().toLowerCase());
}
