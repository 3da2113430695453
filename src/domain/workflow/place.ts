// Names a place in a definition as people write it: `steps.review.depends_on[0]`, `steps["a.b"].topic`.

export function placeIn(path: string, name: string): string {
  if (!/^[A-Za-z0-9_-]+$/.test(name)) return `${path}[${JSON.stringify(name)}]`;
  return path === "" ? name : `${path}.${name}`;
}
