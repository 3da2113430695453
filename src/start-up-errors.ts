// The failures of a program that starts, or that copies its data: no request is ever answered with them.
export type ErrorRow = {
  readonly status: number;
  readonly retryable: boolean;
  readonly message: string;
  /** What the reader of the failure can do about it. */
  readonly remedy: string;
};

export const startUpErrors = {
  config_invalid: {
    status: 500,
    retryable: false,
    message: "the configuration is not valid",
    remedy: "Correct every line of the detail; docs/reference/settings.md lists all settings.",
  },
  store_in_use: {
    status: 500,
    retryable: false,
    message: "another process has the data folder open",
    remedy: "Stop the other process, or choose another data folder.",
  },
  store_schema_newer: {
    status: 500,
    retryable: false,
    message: "the store was written by a newer version",
    remedy: "Start the version that wrote it, or a later one.",
  },
  store_corrupt: {
    status: 500,
    retryable: false,
    message: "the store's data cannot be read",
    remedy: "Restore the data folder from a backup; keep the broken file for analysis.",
  },
  data_left_alone: {
    status: 500,
    retryable: false,
    message: "nothing was copied or replaced",
    remedy: "Do what the detail says and repeat the command.",
  },
  store_unsuitable: {
    status: 500,
    retryable: false,
    message: "the store's server is not suitable",
    remedy: "Change the server setting that the detail names.",
  },
  bus_unavailable: {
    status: 500,
    retryable: false,
    message: "no NATS server can be reached",
    remedy: "Start nats-server with JetStream, or correct bus.natsUrls and the TLS files.",
  },
  bus_unsuitable: {
    status: 500,
    retryable: false,
    message: "the NATS server cannot be used as the bus",
    remedy:
      "Change what the detail names; docs/guide/nats.md lists the version, the settings and the permissions needed.",
  },
} as const satisfies Record<string, ErrorRow>;
