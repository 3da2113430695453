// Subjects on NATS: no two give the same one, and one that is too long is believed only beside its own digest.
import { headers, type Msg } from "@nats-io/transport-node";
import { describe, expect, test } from "vitest";
import { header, readSubject, writeMessage } from "../../src/adapters/nats/messages.ts";
import { namesOf } from "../../src/adapters/nats/streams.ts";
import { systemClock } from "../../src/adapters/system/system.ts";

const names = namesOf("p");
const writing = { clock: systemClock, names, signer: undefined, refusals: { report() {} } };

const near = [
  "a/b",
  "a.b",
  "a%2Fb",
  "a=2Fb",
  "a/=2Fb",
  "a b",
  "a+b",
  "A/b",
  "a/B",
  "a/b/",
  "/a/b",
  "",
  "/",
  "é",
  "e\u0301",
  "a/*",
  "a/>",
  "a/=-b",
];

describe("subjects", () => {
  test("that differ only in what is encoded are different, and are read as they were", () => {
    const written = near.map((subject) => names.subject("results", subject));
    expect(new Set(written).size).toBe(near.length);
    expect(written.map((subject) => names.read("results", subject))).toEqual(near);
    for (const subject of written) expect(subject).toMatch(/^p\.results\.[A-Za-z0-9_:@=.-]+$/);
  });

  const long = (end: string) => `acme/${"x".repeat(3_000)}${end}`;
  const arrived = (subject: string, beside: string | undefined) => {
    const given = headers();
    if (beside !== undefined) given.set(header.subject, beside);
    return { subject, headers: given } as unknown as Msg;
  };

  test("that are too long differ by their digest, and come back from what stands beside it", () => {
    const [one, other] = [long("1"), long("2")];
    const message = writeMessage(writing, "results", { subject: one, body: "" });
    expect(message.subject.length).toBeLessThan(100);
    expect(message.subject).not.toBe(names.subject("results", other));
    expect(message.subject).toMatch(/^p\.results\.acme\./);
    const beside = message.headers?.get(header.subject);
    expect(readSubject(writing, "results", arrived(message.subject, beside))).toBe(one);
    for (const wrong of [encodeURIComponent(other), encodeURIComponent("acme/short"), "%", "", undefined])
      expect(readSubject(writing, "results", arrived(message.subject, wrong))).toBeUndefined();
    expect(
      readSubject(
        writing,
        "hints",
        arrived(message.subject.replace("results", "hints"), encodeURIComponent(other)),
      ),
    ).toBeUndefined();
  });

  test("that are written out do not look at what stands beside them", () => {
    const message = arrived(names.subject("results", "acme/job"), encodeURIComponent("globex/job"));
    expect(readSubject(writing, "results", message)).toBe("acme/job");
  });
});
