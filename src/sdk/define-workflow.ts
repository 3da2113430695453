// Workflows in TypeScript: typed steps and references, and the definition that the server gets.
import type { Handler } from "./worker/job.ts";

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
type Resolved<Template> =
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
function placeOf(value: unknown): string | undefined {
  if (typeof value !== "object" || value === null) return undefined;
  const found = (value as { [place]?: unknown })[place];
  return typeof found === "string" ? found : undefined;
}

function reference<Value>(text: string): Ref<Value> {
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

function stepPath(number: number): string {
  return `${begin}${number}${end}`;
}

function withNames(text: string, nameOf: (number: number) => string): string {
  return text.replaceAll(marks, (_, number: string) => `steps${memberText(nameOf(Number(number)))}`);
}

function stepsIn(text: string): number[] {
  return [...text.matchAll(marks)].map(([, number]) => Number(number));
}

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
type WorkerStep<Topic extends string, Input, Given, Output> = Step<Output> & {
  readonly topic: Topic;
  readonly work?: { readonly input: Input; readonly given: Given };
};

type AnyStep = { readonly output: unknown };

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
  /** What its job is expected to use, by unit: rates and budgets reserve it until the result says what it used. */
  readonly estimate?: Readonly<Record<string, number>>;
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

function askedOf(value: unknown): Asked | undefined {
  return typeof value === "object" && value !== null ? asked.get(value) : undefined;
}

function createBuilder<RunInput>(): Builder<RunInput> {
  let steps = 0;
  function make(fields: Readonly<Record<string, unknown>>): Step<unknown> & { readonly topic?: string } {
    const made = {
      output: reference(`${stepPath(steps)}.output`),
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
function definitionOf(
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

type Steps = Readonly<Record<string, AnyStep>>;

type TopicsIn<All> = {
  [Name in keyof All]: All[Name] extends { readonly topic: infer Topic extends string } ? Topic : never;
}[keyof All];

type InputOf<All, Topic extends string> = {
  [Name in keyof All]: All[Name] extends WorkerStep<Topic, infer Input, infer _Given, infer _Output>
    ? Input
    : never;
}[keyof All];

/** Steps that share a topic share its handler, which must give what each of them promises. */
type GivenTo<All, Topic extends string> = {
  [Name in keyof All]: All[Name] extends WorkerStep<Topic, infer _Input, infer Given, infer _Output>
    ? (given: Given) => void
    : never;
}[keyof All];

type OutputOf<All, Topic extends string> = [GivenTo<All, Topic>] extends [(given: infer Given) => void]
  ? Given
  : never;

/** One handler for each topic of the workflow, with the input that the steps send and the output that they promise. */
export type HandlersOf<All> = {
  readonly [Topic in TopicsIn<All>]: Handler<InputOf<All, Topic>, OutputOf<All, Topic>>;
};

export type OutputsOf<All> = {
  readonly [Name in keyof All]?: All[Name] extends Step<infer Output> ? Output : never;
};

export type WorkflowDefinition<Input, All> = {
  readonly id: string;
  /** For types only: `client.runs.start(workflow, input)` checks the input by it. */
  readonly inputType?: Input;
  /** What `client.workflows.save(workflow)` sends. */
  readonly definition: Readonly<Record<string, unknown>>;
  toJSON(): Readonly<Record<string, unknown>>;
  /** `worker({ topics: workflow.handlers({...}) })`: all topics, each handler checked. */
  handlers(handlers: HandlersOf<All>): HandlersOf<All>;
  /** The outputs of a run's steps, as far as it has got. */
  outputs(run: { readonly steps: Readonly<Record<string, { readonly output?: unknown }>> }): OutputsOf<All>;
};

export type WorkflowFields<Input, All> = {
  readonly id: string;
  readonly name?: string;
  readonly description?: string;
  readonly version?: string;
  readonly risk?: "high" | "standard" | "low";
  readonly timeout_sec?: number;
  /** How many runs may be active at once: of the workflow, of each value of a key such as "${input.customer}", or by a shared name. */
  readonly concurrency?: ReadonlyArray<{
    readonly key?: string;
    readonly max?: number;
    readonly name?: string;
    readonly at_limit?: "reject" | "queue" | "cancel_in_progress" | "replace_queued";
  }>;
  /** Of a run that waits for its place: 0 to 9, or a text with a template that gives it. */
  readonly priority?: number | string;
  readonly fairness?: { readonly key: string; readonly weight?: number };
  /** How many runs may start in a span of time: of the workflow, or of each value of a key. */
  readonly rate?: ReadonlyArray<{
    readonly key?: string;
    readonly limit: number;
    readonly per_sec: number;
    readonly burst?: number;
    readonly at_limit?: "reject" | "queue";
  }>;
  /** What its runs may spend in a period, of what workers say that jobs have used. */
  readonly budgets?: ReadonlyArray<{
    readonly name: string;
    readonly unit: string;
    readonly amount: number;
    readonly per: "hour" | "day" | "week" | "month";
    readonly key?: string;
    readonly at_limit?: "reject" | "hold" | "stop";
  }>;
  readonly queue?: { readonly deadline_sec?: number; readonly max?: number; readonly aging_sec?: number };
  readonly input?: Typed<Input>;
  /** Makes the steps and returns them under their names. */
  readonly steps: (builder: Builder<Input>) => All;
};

/** No code of it runs on the server: what comes out is JSON, the same as written by hand. */
export function defineWorkflow<Input extends object = Record<string, unknown>, All extends Steps = Steps>(
  fields: WorkflowFields<Input, All>,
): WorkflowDefinition<Input, All> {
  const { input, steps: makeSteps, ...header } = fields;
  const steps = makeSteps(createBuilder<Input>());
  const names = new Map<number, string>();
  for (const [name, made] of Object.entries(steps)) {
    const asked = askedOf(made);
    if (asked === undefined) throw new TypeError(`${fields.id}: steps.${name} was not made by the builder`);
    names.set(asked.number, name);
  }
  const nameOf = (number: number) => {
    const name = names.get(number);
    if (name !== undefined) return name;
    throw new TypeError(
      `${fields.id}: a step is referred to that is not among those returned (number ${number + 1} made)`,
    );
  };
  const definition = {
    ...header,
    ...(input?.schema === undefined ? {} : { input_schema: input.schema }),
    steps: Object.fromEntries(
      Object.entries(steps).map(([name, made]) => {
        const asked = askedOf(made);
        return [name, asked === undefined ? {} : definitionOf(asked, nameOf)];
      }),
    ),
  };
  return {
    id: fields.id,
    definition,
    toJSON: () => definition,
    handlers: (handlers) => handlers,
    outputs: (run) =>
      Object.fromEntries(
        Object.keys(steps).flatMap((name) => {
          const output = run.steps[name]?.output;
          return output === undefined ? [] : [[name, output]];
        }),
      ) as OutputsOf<All>,
  };
}
