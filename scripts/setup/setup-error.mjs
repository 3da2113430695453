// A failure of the setup that a person can act on: shown as its message alone, without a stack.

export class SetupError extends Error {
  /**
   * @param {string} message what is wrong and what to do
   * @param {number} exitCode the code the process ends with
   */
  constructor(message, exitCode = 1) {
    super(message);
    this.name = "SetupError";
    this.exitCode = exitCode;
  }
}

/** Setup speaks on stderr only: stdout belongs to the command that follows. */
export function say(line) {
  process.stderr.write(`${line}\n`);
}
