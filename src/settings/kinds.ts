// The kinds of settings, and the short forms that their rows are written in.
export type NumberSetting = {
  readonly kind: "number";
  readonly default: number;
  readonly min: number;
  readonly max: number;
  readonly unit: string;
  readonly env: string;
  readonly why: string;
};
export type ChoiceSetting<Choice extends string> = {
  readonly kind: "choice";
  readonly default: Choice;
  readonly choices: readonly Choice[];
  readonly env: string;
  readonly why: string;
};
type TextSetting = {
  readonly kind: "text";
  readonly default: string;
  readonly pattern: RegExp;
  /** May be left empty, which means that there is none. */
  readonly optional?: true;
  /** Never shown, not even by `interlock config`. */
  readonly secret?: true;
  readonly env: string;
  readonly why: string;
};
export type Setting = NumberSetting | ChoiceSetting<string> | TextSetting;

export const milliseconds = (env: string, byDefault: number, min: number, max: number, why: string) =>
  ({ kind: "number", default: byDefault, min, max, unit: "ms", env, why }) as const satisfies NumberSetting;
export const amount = (env: string, unit: string, byDefault: number, min: number, max: number, why: string) =>
  ({ kind: "number", default: byDefault, min, max, unit, env, why }) as const satisfies NumberSetting;
export const choice = <Choice extends string>(
  env: string,
  choices: readonly [Choice, ...Choice[]],
  why: string,
) => ({ kind: "choice", default: choices[0], choices, env, why }) as const satisfies ChoiceSetting<Choice>;
export const text = (env: string, byDefault: string, pattern: RegExp, why: string) =>
  ({ kind: "text", default: byDefault, pattern, env, why }) as const satisfies TextSetting;
export const optionalText = (env: string, pattern: RegExp, why: string) =>
  ({ kind: "text", default: "", pattern, optional: true, env, why }) as const satisfies TextSetting;
export const secretText = (env: string, pattern: RegExp, why: string) =>
  ({ ...optionalText(env, pattern, why), secret: true }) as const satisfies TextSetting;
