// The brokers, and the quorum that decides about metadata.

import { count, duration } from "../format.js";
import { Figure, Figures, Heading, Shown, Table, useAsked } from "../parts.js";
import { html } from "../vendor/preact.js";

/** @param {any} broker @param {any} of @returns {any[]} */
function row(broker, of) {
  const isHere = broker.id === of.broker_id;
  const isController = broker.id === of.controller_id;
  return [
    html`${broker.id} ${isHere && html`<span class="tag">this one</span>`}
      ${isController && html`<span class="tag">controller</span>`}`,
    html`<bdi>${broker.host}:${broker.port}</bdi>`,
    html`<bdi>${broker.rack ?? "–"}</bdi>`,
    broker.fenced ? html`<b class="bad">fenced</b>` : "serves",
    count(broker.leaders),
    html`${count(broker.in_sync)} of ${count(broker.replicas)}`,
  ];
}

/** @param {{ members: any[], caption: string, leader: number | null }} props */
function Members({ members, caption, leader }) {
  return html`<${Table}
    caption=${caption}
    columns=${[["Broker"], ["Role"], ["Log end", "number"], ["Answered", "number"]]}
    rows=${members.map((one) => [
      one.broker_id,
      one.broker_id === leader ? html`<span class="tag">leader</span>` : "follows",
      count(one.log_end_offset),
      one.answered_ms_ago === null ? "–" : `${duration(one.answered_ms_ago)} ago`,
    ])}
    empty="None."
  />`;
}

/** @param {any} of */
function Facts(of) {
  const quorum = of.quorum;
  return html`<${Table}
      caption="Brokers"
      columns=${[
        ["Broker"], ["Address"], ["Rack"], ["State"], ["Leads", "number"], ["In sync", "number"],
      ]}
      rows=${of.brokers.map((/** @type {any} */ broker) => row(broker, of))}
    />
    <section class="card">
      <h2>Controller quorum</h2>
      <${Figures}>
        <${Figure} name="Leader" value=${quorum.leader_id ?? "none"} />
        <${Figure} name="Leader epoch" value=${count(quorum.leader_epoch)} />
        <${Figure} name="High watermark" value=${count(quorum.high_watermark)} />
        <${Figure} name="This broker has" value=${count(of.metadata_offset)}
          note="the last record" />
      <//>
      <${Members} caption="Voters" members=${quorum.voters} leader=${quorum.leader_id} />
      ${quorum.observers.length > 0 &&
      html`<${Members}
        caption="Observers"
        members=${quorum.observers}
        leader=${quorum.leader_id}
      />`}
    </section>`;
}

export function Cluster() {
  const of = useAsked("/cluster", {}, 2000);
  const whose = of.data &&
    `The cluster ${of.data.cluster_id} as broker ${of.data.broker_id} knows it.`;
  return html`<${Heading} title="Cluster" whose=${whose} /> <${Shown} of=${of} show=${Facts} />`;
}
