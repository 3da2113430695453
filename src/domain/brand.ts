// Makes a string or number type that only its own constructor can produce, so that ids cannot be mixed up.
declare const brand: unique symbol;

export type Brand<Value, Name extends string> = Value & { readonly [brand]: Name };
