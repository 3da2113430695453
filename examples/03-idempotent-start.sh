#!/bin/sh
# One idempotency key, one run: three starts in plain curl.
#
#   sh examples/03-idempotent-start.sh
#
# It starts a server of its own (yours would be `npx interlock serve`), and stops it at the end. It needs curl and Node.
set -eu
cd "$(dirname "$0")/.."

folder=$(mktemp -d)
server=
trap '[ -z "$server" ] || kill "$server" 2>/dev/null; wait; rm -rf "$folder"' EXIT
trap 'exit 130' INT TERM PIPE

node --import tsx src/cli/interlock.ts serve --port 0 --data "$folder/data" > "$folder/ready.json" &
server=$!
until [ -s "$folder/ready.json" ]; do
  kill -0 "$server" || exit 1
  sleep 0.1
done
url=$(node -p "JSON.parse(fs.readFileSync('$folder/ready.json')).url")

# The file holds the admin's key as a header field, so that it stands in no command line.
call() { curl -sS -H "@$folder/data/curl-headers" -H 'Content-Type: application/json' -w '\n' "$@"; }

# A workflow of one step, which waits for a person.
call -d '{"id": "order", "steps": {"check": {"type": "approval"}}}' "$url/api/v1/workflows" > "$folder/saved.json"

# A start; with -i, curl prints the status and the header fields, too.
begin() { call -i -H 'Idempotency-Key: order-42' -d "$1" "$url/api/v1/workflows/order/runs" > "$folder/answer.txt"; }
shown() { grep -iE '^(HTTP|idempotent-replayed|\{)' "$folder/answer.txt" | tr -d '\r'; }
run_id() { sed -n 's/.*"run_id":"\([^"]*\)".*/\1/p' "$folder/answer.txt"; }

echo '1. The first start with the key order-42:'
begin '{"order": 42}'
shown
first=$(run_id)

echo
echo '2. The same start again, as after a lost answer:'
begin '{"order": 42}'
shown
again=$(run_id)
[ "$first" = "$again" ]
echo 'It is the same run.'

echo
echo '3. Another order with the same key:'
begin '{"order": 43}'
shown
