// The settings of what a process does, and of the bus between processes.
import { amount, choice, optionalText, secretText, text } from "./kinds.ts";

export const busSettings = {
  "bus.kind": choice(
    "BUS",
    ["in-process", "nats"],
    "In-process needs no services and reaches this process only; nats carries hints, results and announcements between several.",
  ),
  "bus.natsUrls": text(
    "NATS_URLS",
    "nats://127.0.0.1:4222",
    /^(nats|tls):\/\/[^,\s]+(,(nats|tls):\/\/[^,\s]+)*$/,
    "One server, or several of a cluster separated by commas. tls:// insists on encryption.",
  ),
  "bus.natsUser": optionalText(
    "NATS_USER",
    /^\S{0,128}$/,
    "User of the NATS servers where their address names none; docs/guide/nats.md lists the permissions it needs.",
  ),
  "bus.natsPassword": secretText("NATS_PASSWORD", /^.{0,512}$/, "Password of bus.natsUser; never shown."),
  "bus.credentialsFile": optionalText(
    "NATS_CREDENTIALS_FILE",
    /./,
    "A .creds file, for servers with decentralised accounts.",
  ),
  "bus.tlsCaFile": optionalText(
    "NATS_TLS_CA_FILE",
    /./,
    "PEM file with the authority that signed the servers' certificates; by default those that Node trusts.",
  ),
  "bus.tlsCertFile": optionalText(
    "NATS_TLS_CERT_FILE",
    /./,
    "PEM file with our own certificate, for servers that ask for one.",
  ),
  "bus.tlsKeyFile": optionalText("NATS_TLS_KEY_FILE", /./, "PEM file with the key of bus.tlsCertFile."),
  "bus.signingKeys": secretText(
    "BUS_SIGNING_KEYS",
    /^[^,\s]{16,}(,[^,\s]{16,})*$/,
    "Keys of 16 characters or more, separated by commas: the first signs every message, all verify. Empty: messages are not signed. Never shown.",
  ),
  "bus.replicas": amount(
    "BUS_REPLICAS",
    "servers",
    1,
    1,
    5,
    "Servers of a NATS cluster that keep each stream; 3 survives the loss of one.",
  ),
} as const;

export const processSettings = {
  "process.roles": text(
    "ROLES",
    "gateway,engine,scheduler",
    /^(gateway|engine|scheduler)(,(gateway|engine|scheduler))*$/,
    "What this process does: `gateway` takes requests and hands out jobs, `engine` sweeps and applies what nobody else does, `scheduler` asks the dispatch check.",
  ),
} as const;
