// A field of a reply that is left out where there is no value.

export function present<Name extends string, Value>(name: Name, value: Value | undefined) {
  return (value === undefined ? {} : { [name]: value }) as { [Key in Name]?: Value };
}
