// interlock doctor names the stored workflows that the rules of this version would refuse; they still run.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import type { JsonValue } from "../../src/domain/fingerprint.ts";
import { definitionHash, definitionText } from "../../src/domain/workflow/definition.ts";
import type { Finding } from "../../src/ports/ports.ts";
import { typeCommand } from "../support/command-line.ts";
import { acme, type GatewayWorld, openGatewayWorld, simpleWorkflow } from "../support/gateway-world.ts";

/** As an earlier version stored it. */
async function store({ plane }: GatewayWorld, id: string, definition: JsonValue): Promise<void> {
  const text = definitionText({ ...(definition as object), id });
  const hash = definitionHash(text);
  const put = (collection: "definition" | "workflow", name: string, body: string) =>
    plane.ports.store.putDocument(
      { tenant: acme, collection, id: name, body, changeId: name, actor: "earlier" },
      { deadlineMs: 5_000 },
    );
  await put("definition", hash, text);
  await put("workflow", id, JSON.stringify({ hash }));
}

test("stored workflows that would be refused now are named with the problem, and run", async () => {
  const folder = mkdtempSync(join(tmpdir(), "interlock-doctor-"));
  const world = await openGatewayWorld();
  try {
    await store(world, "simple", simpleWorkflow);
    await store(world, "costly", { ...simpleWorkflow, input_schema: { requird: ["a"] } });
    const said = await typeCommand(folder, ["doctor", "--json"], {
      env: { INTERLOCK_URL: world.url, INTERLOCK_API_KEY: world.acme.viewer.text },
    });
    const { findings } = said.json<{ readonly findings: readonly Finding[] }>();
    expect(findings.filter(({ subject }) => subject.startsWith("workflow"))).toEqual([
      {
        subject: "workflow costly of acme",
        level: "warn",
        message: expect.stringMatching(/^this version would refuse it: input_schema.*requird/),
        remedy: expect.any(String),
      },
      { subject: "workflows", level: "ok", message: "1 of 2 are valid by this version's rules" },
    ]);
    const started = await world.ask("POST", "/api/v1/workflows/costly/runs", {
      key: world.acme.operator,
      body: { input: {} },
    });
    expect(started.status).toBe(200);
  } finally {
    await world.close();
    rmSync(folder, { recursive: true, force: true });
  }
});
