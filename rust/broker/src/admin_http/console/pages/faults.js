// Test control: stages that stand still, faults, moves, copies, and the broker's clock.

import { useCommand } from "../command.js";
import { count } from "../format.js";
import { Heading, Shown, Table, Trouble, useAsked } from "../parts.js";
import { html, useState } from "../vendor/preact.js";
import { Copies, Moves } from "./copies.js";

const STAGES = [
  ["request_queue", "Request queue", "Requests wait before their handlers."],
  ["io_threads", "I/O threads", "Every I/O thread stands still."],
  ["log", "Commit log", "Writes of records wait."],
  ["response_queue", "Response queue", "Answers wait."],
];

/** The members of a fault that each kind takes, with what a field says. */
const KINDS = /** @type {Record<string, string[]>} */ ({
  error: ["api", "error", "topic", "client_id", "times"],
  delay: ["ms", "api", "topic", "client_id", "times"],
  disconnect: ["api", "topic", "client_id", "times"],
  drop_response: ["api", "topic", "client_id", "times"],
  blackhole: ["client_id"],
  throttle: ["ms", "api", "client_id", "times"],
  versions: ["api", "min_version", "max_version", "client_id"],
  follower: ["broker", "topic", "client_id", "times"],
  leader: ["broker", "leader_epoch", "topic", "client_id", "times"],
});

const FIELDS = /** @type {Record<string, [string, string]>} */ ({
  api: ["API", "Produce"],
  error: ["Error", "NOT_LEADER_OR_FOLLOWER"],
  ms: ["Milliseconds", "500"],
  topic: ["Topic", "every topic"],
  client_id: ["Client id", "every client"],
  times: ["Times", "always"],
  min_version: ["Least version", "the broker's own"],
  max_version: ["Newest version", "the broker's own"],
  broker: ["Broker", "2"],
  leader_epoch: ["Leader epoch", "the true one"],
});

/** Fields that are numbers, and the least of each. */
const NUMBERS = /** @type {Record<string, number>} */ ({
  ms: 1,
  times: 1,
  min_version: 0,
  max_version: 0,
  broker: 0,
  leader_epoch: 0,
});

/** @param {string} kind @param {string} name */
const isRequired = (kind, name) =>
  ["error", "ms", "broker"].includes(name) ||
  (name === "api" && ["error", "versions"].includes(kind));

const MOVES = /** @type {[string, number][]} */ ([
  ["1 minute", 60_000],
  ["1 hour", 3_600_000],
  ["1 day", 86_400_000],
  ["8 days", 691_200_000],
]);

/** @param {{ faults: any[], command: any }} props */
function Stages({ faults, command }) {
  return html`<section class="card">
    <h2>Stall a stage</h2>
    <p class="muted">
      Requests gather before a stage that stands still: the data plane shows the back-pressure.
    </p>
    <ul class="stalls">
      ${STAGES.map(([stage, name, means]) => {
        const stalls = faults.filter((fault) => fault.kind === "stall" && fault.stage === stage);
        const toggle = () =>
          stalls.length > 0
            ? command.run("DELETE", pathOf(stalls[0]))
            : command.run("POST", "/faults", { kind: "stall", stage });
        return html`<li>
          <button
            class=${stalls.length > 0 ? "main" : ""}
            aria-pressed=${stalls.length > 0}
            disabled=${command.busy}
            onClick=${toggle}
          >
            ${name}
          </button>
          <span class="muted">${means}</span>
        </li>`;
      })}
    </ul>
  </section>`;
}

/** @param {any} form @returns {Record<string, string | number>} */
function membersOf(form) {
  const members = /** @type {Record<string, string | number>} */ ({});
  for (const [name, value] of new FormData(form)) {
    const text = value.toString().trim();
    if (text === "") continue;
    members[name] = name in NUMBERS ? Number(text) : text;
  }
  return members;
}

/** @param {{ command: any }} props */
function Add({ command }) {
  const [kind, setKind] = useState("error");
  const submit = (/** @type {any} */ event) => {
    event.preventDefault();
    command.run("POST", "/faults", membersOf(event.target));
  };
  return html`<section class="card">
    <h2>Add a fault</h2>
    <form class="ask" onSubmit=${submit}>
      <label>
        Kind
        <select name="kind" value=${kind} onChange=${(/** @type {any} */ event) =>
          setKind(event.target.value)}>
          ${Object.keys(KINDS).map(
            (name) => html`<option value=${name}>${name.replace("_", " ")}</option>`,
          )}
        </select>
      </label>
      ${KINDS[kind].map((name) => {
        const [label, hint] = FIELDS[name];
        const isNumber = name in NUMBERS;
        return html`<label key=${name}>
          ${label}
          <input
            name=${name}
            type=${isNumber ? "number" : "text"}
            min=${NUMBERS[name]}
            placeholder=${hint}
            autocomplete="off"
            spellcheck=${false}
            required=${isRequired(kind, name)}
          />
        </label>`;
      })}
      <button class="main" disabled=${command.busy}>Add the fault</button>
    </form>
  </section>`;
}

/** Its path: never that of a fault of another life of the broker. @param {any} fault */
function pathOf(fault) {
  return `/faults/${fault.id}?life=${fault.life}`;
}

/** What a fault is restricted to. @param {any} fault */
function restrictions(fault) {
  const shown = new Set(["id", "life", "kind", "seen", "fired", "spent"]);
  const rest = Object.entries(fault).filter(([name, value]) => !shown.has(name) && value !== null);
  return rest.map(([name, value]) => html`<code><bdi>${`${name}=${value}`}</bdi></code> `);
}

/** @param {{ faults: any[], command: any }} props */
function Faults({ faults, command }) {
  return html`<${Table}
      caption="Faults in force"
      columns=${[["Kind"], ["What and when"], ["Seen", "number"], ["Struck", "number"], [""]]}
      rows=${faults.map((fault) => [
        html`${fault.kind.replace("_", " ")}
          ${fault.spent && html`<span class="tag">spent</span>`}`,
        restrictions(fault),
        count(fault.seen),
        count(fault.fired),
        html`<button
          class="danger"
          aria-label=${`Remove fault ${fault.id}`}
          disabled=${command.busy}
          onClick=${() => command.run("DELETE", pathOf(fault))}
        >
          Remove
        </button>`,
      ])}
      empty="There are no faults."
    />
    ${faults.length > 0 &&
    html`<p>
      <button disabled=${command.busy} onClick=${() => command.run("DELETE", "/faults")}>
        Remove all faults
      </button>
    </p>`}`;
}

/** The broker's clock, which goes forward only. */
function Clock() {
  const of = useAsked("/clock", {}, 1000);
  const command = useCommand(of.reload);
  const move = (/** @type {number} */ ms) => () =>
    command.run("POST", "/clock/advance", { ms, monotonic: false });
  return html`<section class="card">
    <h2>Clock</h2>
    <${Trouble} refusal=${command.refusal} />
    <${Shown} of=${of} show=${(/** @type {any} */ clock) => html`<p>
        The broker's time is
        <b>${" "}${new Date(clock.now_ms).toISOString().replace("T", " ")}</b>. A move forward
        deletes, compacts and expires what is due then, before it ends.
      </p>`} />
    <p class="ask">
      ${MOVES.map(
        ([name, ms]) =>
          html`<button disabled=${command.busy} onClick=${move(ms)}>Forward ${name}</button>`,
      )}
    </p>
  </section>`;
}

/** The page. */
export function FaultsPage() {
  const of = useAsked("/faults", {}, 1000);
  const command = useCommand(of.reload);
  return html`<${Heading} title="Faults" whose="This broker fails on purpose." />
    <${Trouble} refusal=${command.refusal} />
    <${Shown} of=${of} show=${(/** @type {any} */ data) => html`<${Stages}
        faults=${data.faults}
        command=${command}
      />
      <${Add} command=${command} />
      <${Faults} faults=${data.faults} command=${command} />
      <${Moves} onDone=${of.reload} /> <${Copies} /> <${Clock} />`} />`;
}
