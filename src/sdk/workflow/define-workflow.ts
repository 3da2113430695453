// Workflows in TypeScript: the definition that the server gets, and the types of its input, its steps and their handlers.
import type { Handler } from "../worker/job.ts";
import {
  type AnyStep,
  askedOf,
  type Builder,
  createBuilder,
  definitionOf,
  type Step,
  type Typed,
  type WorkerStep,
} from "./steps.ts";

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
