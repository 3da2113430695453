// Typed references to what a run knows: they look like the values, and are written into the definition as templates.

declare const referenced: unique symbol;

type Reference<Value> = { readonly [referenced]: Value };

/** Stands for a value of a run: its members are references, too. In a text, `${ref}` becomes the template. */
export type Ref<Value> = Reference<Value> & Members<Value>;

type Members<Value> = [Value] extends [ReadonlyArray<infer Item>]
  ? { readonly [index: number]: Ref<Item> }
  : [Value] extends [object]
    ? { readonly [Name in keyof Value]-?: Ref<Exclude<Value[Name], undefined>> }
    : unknown;

/** What a template becomes when a run evaluates it. */
export type Resolved<Template> =
  Template extends Reference<infer Value>
    ? Value
    : Template extends string
      ? string
      : Template extends number
        ? number
        : Template extends boolean
          ? boolean
          : Template extends ReadonlyArray<infer Item>
            ? ReadonlyArray<Resolved<Item>>
            : Template extends object
              ? { readonly [Name in keyof Template]: Resolved<Template[Name]> }
              : Template;

/** An expression as conditions have it, without `${}` around it. */
export class Expression {
  readonly text: string;

  constructor(text: string) {
    this.text = text;
  }
}

/** References become their places, everything else a literal: expression`${input.amount} > ${limit}`. */
export function expression(parts: TemplateStringsArray, ...values: readonly unknown[]): Expression {
  const texts = values.map((value) => placeOf(value) ?? JSON.stringify(value));
  return new Expression(parts.map((part, index) => part + (texts[index] ?? "")).join(""));
}

const place = Symbol("place");

/** The place of a reference, such as `input.order`; undefined for everything else. */
export function placeOf(value: unknown): string | undefined {
  if (typeof value !== "object" || value === null) return undefined;
  const found = (value as { [place]?: unknown })[place];
  return typeof found === "string" ? found : undefined;
}

export function reference<Value>(text: string): Ref<Value> {
  const written = () => `\${${text}}`;
  const target = Object.freeze({});
  const proxy = new Proxy(target, {
    get(_, name) {
      if (name === place) return text;
      if (name === Symbol.toPrimitive || name === "toJSON" || name === "toString") return written;
      return typeof name === "symbol" ? undefined : reference(text + memberText(name));
    },
  });
  return proxy as unknown as Ref<Value>;
}

function memberText(name: string): string {
  if (/^[A-Za-z_]\w*$/.test(name)) return `.${name}`;
  return /^\d+$/.test(name) ? `[${name}]` : `[${JSON.stringify(name)}]`;
}

/** A step gets its name only when all are known: until then its place is its number between two marks. */
const begin = "\uE000";
const end = "\uE001";
const marks = new RegExp(`${begin}(\\d+)${end}`, "g");

export function stepPlace(number: number): string {
  return `${begin}${number}${end}`;
}

export function withNames(text: string, nameOf: (number: number) => string): string {
  return text.replaceAll(marks, (_, number: string) => `steps${memberText(nameOf(Number(number)))}`);
}

export function stepsIn(text: string): number[] {
  return [...text.matchAll(marks)].map(([, number]) => Number(number));
}
