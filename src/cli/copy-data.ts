// Copies the embedded data into one file and back, and says what was done; the server that owns it must be stopped.
import { keyPaths } from "../embedded/keys-file.ts";
import { readFileIfThere } from "../embedded/private-file.ts";
import { type ConfigSources, loadConfig } from "../load-config.ts";
import { asTyped } from "./typed-folder.ts";

/** The store's adapter is loaded when it is needed: most commands only talk to a server. */
const programs = async () => ({
  ...(await import("../control-plane.ts")),
  ...(await import("../embedded/start-server.ts")),
});

export async function backUp(sources: ConfigSources, target: string) {
  const { embeddedData, whoHasIt } = await programs();
  const directory = loadConfig(sources).config["store.dataDirectory"];
  const copy = await whoHasIt(directory, () => embeddedData.backUp(directory, target));
  const lines = [
    `${asTyped(copy.file)}: ${copy.bytes} bytes, schema version ${copy.schemaVersion}, checked.`,
    "It holds the inputs and outputs of all runs, and no API keys: those are in keys.json.",
  ];
  return { copy, lines };
}

export async function restoreFrom(
  sources: ConfigSources,
  { source, existing }: { readonly source: string; readonly existing: "replace" | "refuse" },
) {
  const { embeddedData, whoHasIt } = await programs();
  const directory = loadConfig(sources).config["store.dataDirectory"];
  const restored = await whoHasIt(directory, () => embeddedData.restore(source, directory, { existing }));
  const lines = [
    `${asTyped(restored.file)}: ${restored.bytes} bytes, schema version ${restored.schemaVersion}, checked.`,
    ...(restored.before === undefined
      ? []
      : [`The data from before is kept in ${asTyped(restored.before)}.`]),
    ...(readFileIfThere(keyPaths(directory).keysFile) === undefined
      ? [
          "There is no keys.json here: the keys from before still work; npm start -- --new-keys makes new ones.",
        ]
      : []),
  ];
  return { restored, lines };
}
