// After every test of every file: nothing that a server has said or written holds a secret that a test was given.
import { afterAll, afterEach, expect } from "vitest";
import { secretWatch } from "./secret-watch.ts";

const check = () => expect(secretWatch.leaks()).toEqual([]);

afterEach(check);
// What was said while the last servers were stopped.
afterAll(check);
