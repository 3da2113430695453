// The steps of a workflow as TypeScript writes them, and the definition that is made of them.
import {
  Expression,
  expression,
  placeOf,
  type Ref,
  type Resolved,
  reference,
  stepPlace,
  stepsIn,
  withNames,
} from "./reference.ts";

declare const typed: unique symbol;

/** A type, with or without the JSON Schema that the server checks values by. */
export type Typed<Value> = { readonly [typed]?: Value; readonly schema?: object };

/** `type<{ order: string }>()`, or with the schema: `type<Order>({ type: "object", ... })`. */
export function type<Value>(schema?: object): Typed<Value> {
  return schema === undefined ? {} : { schema };
}

declare const step: unique symbol;

/** A step to refer to: `fetch.output.items`. */
export type Step<Output> = { readonly [step]?: Output; readonly output: Ref<Output> };

/** One that workers do: what its handler gets and gives. */
export type WorkerStep<Topic extends string, Input, Given, Output> = Step<Output> & {
  readonly topic: Topic;
  readonly work?: { readonly input: Input; readonly given: Given };
};

export type AnyStep = { readonly output: unknown };

/** Fields that all steps have; those of the language itself keep their names. */
type StepFields = {
  /** Steps that must have ended well before. Those that `input` and `when` refer to are added by themselves. */
  readonly after?: readonly AnyStep[];
  /** Skips the step when it is false. */
  readonly when?: Expression;
  readonly name?: string;
  readonly timeout_sec?: number;
  readonly retry?: {
    readonly max_retries?: number;
    readonly initial_backoff_sec?: number;
    readonly max_backoff_sec?: number;
    readonly multiplier?: number;
  };
  /** A step that runs when this one has failed for good. */
  readonly on_error?: AnyStep;
  readonly output_path?: string;
  /** Instead of what follows from the references. */
  readonly depends_on?: readonly AnyStep[];
};

type WorkFields<Topic extends string, Output> = StepFields & {
  readonly topic: Topic;
  readonly output?: Typed<Output>;
  readonly route_labels?: Readonly<Record<string, string>>;
  readonly meta?: { readonly requires?: readonly string[] };
};

export type Builder<RunInput> = {
  /** The run's input. */
  readonly input: Ref<RunInput>;
  readonly expression: typeof expression;
  /** Work for a worker. Without `input` it gets the run's own. */
  worker<const Topic extends string, Input extends object, Output = unknown>(
    fields: WorkFields<Topic, Output> & { readonly input: Input },
  ): WorkerStep<Topic, Resolved<Input>, Output, Output>;
  worker<const Topic extends string, Output = unknown>(
    fields: WorkFields<Topic, Output> & { readonly input?: undefined },
  ): WorkerStep<Topic, RunInput, Output, Output>;
  /** The same for every item of a list; its output is the list of the outputs. */
  each<const Topic extends string, Item, Input extends object, Output = unknown>(
    items: Ref<readonly Item[]>,
    fields: WorkFields<Topic, Output> & {
      readonly input: (item: Ref<Item>, index: Ref<number>) => Input;
      readonly max_parallel?: number;
      readonly for_each_on_failure?: "cancel" | "continue";
    },
  ): WorkerStep<Topic, Resolved<Input>, Output, readonly Output[]>;
  /** Waits for a person, who is shown `input`. */
  approval(
    fields?: StepFields & { readonly input?: object; readonly separate_duties?: boolean },
  ): Step<unknown>;
  /** Its output is its input, evaluated. */
  transform<Input extends object>(fields: StepFields & { readonly input: Input }): Step<Resolved<Input>>;
  /** Its output is true or false. */
  condition(condition: Expression, fields?: Omit<StepFields, "when">): Step<boolean>;
  /** Any other type of the language, by its own fields. A step inside stands for its name. */
  step<Output = unknown>(
    fields: StepFields & {
      readonly type: string;
      readonly output?: Typed<Output>;
      readonly [field: string]: unknown;
    },
  ): Step<Output>;
};

/** How a step was asked for; `number` is its place in that order. */
type Asked = { readonly number: number; readonly fields: Readonly<Record<string, unknown>> };

const asked = new WeakMap<object, Asked>();

export function askedOf(value: unknown): Asked | undefined {
  return typeof value === "object" && value !== null ? asked.get(value) : undefined;
}

export function createBuilder<RunInput>(): Builder<RunInput> {
  let steps = 0;
  function make(fields: Readonly<Record<string, unknown>>): Step<unknown> & { readonly topic?: string } {
    const made = {
      output: reference(`${stepPlace(steps)}.output`),
      ...(typeof fields.topic === "string" ? { topic: fields.topic } : {}),
    };
    asked.set(made, { number: steps, fields });
    steps += 1;
    return made;
  }
  const builder = {
    input: reference("input"),
    expression,
    worker: make,
    each(items: unknown, { input, ...fields }: { readonly input: (...known: unknown[]) => unknown }) {
      const itemInput = input(reference("item"), reference("index"));
      return make({ ...fields, for_each: new Expression(placeOf(items) ?? String(items)), input: itemInput });
    },
    approval: (fields = {}) => make({ ...fields, type: "approval" }),
    transform: (fields: object) => make({ ...fields, type: "transform" }),
    condition: (condition: Expression, fields = {}) => make({ ...fields, type: "condition", condition }),
    step: make,
  };
  return builder as unknown as Builder<RunInput>;
}

/** The step in the language's own words. */
export function definitionOf(
  { fields }: Asked,
  nameOf: (number: number) => string,
): Readonly<Record<string, unknown>> {
  const { after = [], when, output, depends_on, ...rest } = fields;
  const seen = new Set<number>();
  const write = (value: unknown) => written(value, nameOf, seen);
  const body = Object.entries(rest).map(([name, value]) => [name, write(value)] as const);
  const condition = when === undefined ? {} : { condition: write(when) };
  const { schema } = (output ?? {}) as Typed<unknown>;
  const before = (depends_on ?? after) as readonly unknown[];
  const numbers = before.map((given) => askedOf(given)?.number).filter((number) => number !== undefined);
  const names = [...new Set(depends_on === undefined ? [...numbers, ...seen] : numbers)].map(nameOf);
  return {
    ...Object.fromEntries(body.filter(([, value]) => value !== undefined)),
    ...condition,
    ...(schema === undefined ? {} : { output_schema: schema }),
    ...(names.length === 0 && depends_on === undefined ? {} : { depends_on: names }),
  };
}

function written(value: unknown, nameOf: (number: number) => string, seen: Set<number>): unknown {
  const text = (raw: string) => {
    for (const number of stepsIn(raw)) seen.add(number);
    return withNames(raw, nameOf);
  };
  const step = askedOf(value);
  if (step !== undefined) return nameOf(step.number);
  const found = placeOf(value);
  if (found !== undefined) return text(`\${${found}}`);
  if (value instanceof Expression) return text(value.text);
  if (typeof value === "string") return text(value);
  if (Array.isArray(value)) return value.map((item) => written(item, nameOf, seen));
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([name, item]) => [name, written(item, nameOf, seen)]));
}
