// Where each stage of the data plane stands in the picture, and the ways between them.

/** @typedef {{ x: number, y: number, w: number, h: number }} Box */
/** @typedef {[number, number]} Point */
/** @typedef {{ d: string, kind?: string, label?: string, at?: Point }} Way */
/**
 * @typedef {{ width: number, height: number, boxes: Record<string, Box>, ways: Way[],
 *   in: Point, out: Point, mark: Point, bends: Record<string, Point[]> }} Layout
 *   At `mark` stands where the log ends.
 */

/** Names and what happens there, in the order a request meets the stages. */
export const STAGES = /** @type {Record<string, { title: string, says: string }>} */ ({
	socket: { title: "Socket", says: "Connections of clients. The kernel keeps their bytes." },
	network_threads: {
		title: "Network threads",
		says: "Read frames, keep the responses of a connection in order, and write.",
	},
	request_queue: {
		title: "Request queue",
		says: "Bounded, in three lanes: brokers, control, data. No flood stops another lane.",
	},
	io_threads: { title: "I/O threads", says: "Run the handlers. The time is that of a handler." },
	commit_log: { title: "Commit log", says: "Appends of batches to the segments of partitions." },
	cold_reads: { title: "Cold reads", says: "Threads that read what left the page cache." },
	produce_purgatory: {
		title: "Produce purgatory",
		says: "Produces with acks=all wait for the high watermark.",
	},
	fetch_purgatory: { title: "Fetch purgatory", says: "Fetches wait for bytes or for their time." },
	response_queues: { title: "Response queues", says: "One for each network thread." },
	response_send: {
		title: "Socket send",
		says: "Headers from memory, records by sendfile from the page cache.",
	},
	replication: { title: "Replication", says: "Followers fetch, and move the high watermark." },
});

/** How far above the foot of its box the track of the dots is. */
const TRACK = 15;

/** @type {Layout} */
export const WIDE = {
	width: 1200,
	height: 556,
	boxes: {
		socket: { x: 26, y: 62, w: 172, h: 144 },
		network_threads: { x: 246, y: 62, w: 172, h: 144 },
		request_queue: { x: 466, y: 62, w: 172, h: 144 },
		io_threads: { x: 686, y: 62, w: 172, h: 144 },
		commit_log: { x: 924, y: 62, w: 250, h: 144 },
		produce_purgatory: { x: 466, y: 288, w: 172, h: 116 },
		fetch_purgatory: { x: 466, y: 428, w: 172, h: 116 },
		cold_reads: { x: 686, y: 428, w: 172, h: 116 },
		response_queues: { x: 246, y: 344, w: 172, h: 144 },
		response_send: { x: 26, y: 344, w: 172, h: 144 },
		replication: { x: 924, y: 344, w: 250, h: 144 },
	},
	ways: [
		{ d: "M0 191H20" },
		{ d: "M198 191H240" },
		{ d: "M418 191H460" },
		{ d: "M638 191H680" },
		{ d: "M858 191H918" },
		{ d: "M332 62V40Q332 28 344 28H760Q772 28 772 40V56", kind: "dashed",
			label: "inline: a cheap request finds the queue empty", at: [552, 20] },
		{ d: "M772 206V377Q772 389 760 389H644" },
		{ d: "M734 206V517Q734 529 722 529H644", kind: "faint" },
		{ d: "M820 428V212", kind: "dashed" },
		{ d: "M466 389H448Q436 389 436 401V461Q436 473 424 473" },
		{ d: "M466 529H448Q436 529 436 517V485Q436 473 424 473" },
		{ d: "M706 206V240Q706 252 694 252H344Q332 252 332 264V338", label: "answered at once",
			at: [520, 245] },
		{ d: "M246 473H204" },
		{ d: "M26 473H4" },
		{ d: "M1106 344V212" },
		{ d: "M990 206V338", kind: "dashed", label: "fetches", at: [990, 278] },
	],
	in: [-8, 191],
	out: [-12, 473],
	mark: [1106, 271],
	bends: {
		inline: [[332, 191], [332, 28], [772, 28]],
		"commit_log>produce_purgatory": [[772, 191], [772, 389]],
		"commit_log>fetch_purgatory": [[734, 191], [734, 529]],
		"commit_log>response_queues": [[706, 191], [706, 252], [332, 252]],
		"io_threads>response_queues": [[706, 191], [706, 252], [332, 252]],
		"produce_purgatory>response_queues": [[436, 389], [436, 473]],
		"fetch_purgatory>response_queues": [[436, 529], [436, 473]],
	},
};

/** @type {Layout} */
export const NARROW = {
	width: 390,
	height: 938,
	boxes: {
		socket: { x: 12, y: 26, w: 172, h: 136 },
		network_threads: { x: 206, y: 26, w: 172, h: 136 },
		request_queue: { x: 206, y: 196, w: 172, h: 144 },
		io_threads: { x: 206, y: 374, w: 172, h: 136 },
		commit_log: { x: 206, y: 544, w: 172, h: 124 },
		response_send: { x: 12, y: 196, w: 172, h: 144 },
		response_queues: { x: 12, y: 374, w: 172, h: 136 },
		produce_purgatory: { x: 12, y: 544, w: 172, h: 124 },
		fetch_purgatory: { x: 12, y: 688, w: 172, h: 104 },
		cold_reads: { x: 206, y: 688, w: 172, h: 104 },
		replication: { x: 12, y: 806, w: 366, h: 124 },
	},
	ways: [
		{ d: "M60 0V20" },
		{ d: "M184 147H200" },
		{ d: "M292 162V190" },
		{ d: "M292 340V368" },
		{ d: "M292 510V538" },
		{ d: "M206 495H190" },
		{ d: "M206 653H190" },
		{ d: "M98 544V516" },
		{ d: "M98 374V346" },
		{ d: "M98 196V180Q98 174 92 174H12Q6 174 6 168V4", kind: "faint" },
		{ d: "M195 653V765Q195 777 190 777", kind: "faint" },
		{ d: "M292 688V674", kind: "dashed" },
	],
	in: [60, -10],
	out: [6, -10],
	mark: [296, 828],
	bends: {
		"response_send>out": [[98, 325], [98, 174], [6, 174]],
		inline: [],
	},
};

/** Where dots are in a stage. @param {Box} box @returns {Point} */
export function track(box) {
	return [box.x + box.w / 2, box.y + box.h - TRACK];
}

/**
 * The stages that a finished request was in, each with the time it took there.
 * @param {RequestRow} request
 * @returns {{ stage: string, ms: number }[]}
 */
export function stagesOf(request) {
	const isProduce = request.api === "Produce";
	const isFetch = request.api === "Fetch";
	const waited = request.waited_ms ?? 0;
	const stages = [
		{ stage: "socket", ms: 0 },
		{ stage: "network_threads", ms: 0 },
		{ stage: "request_queue", ms: request.queue_ms },
		{ stage: "io_threads", ms: request.handler_ms ?? 0 },
	];
	if (isProduce || isFetch) stages.push({ stage: "commit_log", ms: 0 });
	// A produce that need not wait is answered by its handler.
	if (waited > 0.02 && (isProduce || isFetch)) {
		stages.push({ stage: isProduce ? "produce_purgatory" : "fetch_purgatory", ms: waited });
	}
	stages.push({ stage: "response_queues", ms: request.response_queue_ms ?? 0 });
	stages.push({ stage: "response_send", ms: request.send_ms ?? 0 });
	return stages;
}

/** The colour of an API. @param {string} api @returns {string} */
export function ink(api) {
	if (api === "Produce") return "produce";
	return api === "Fetch" ? "fetch" : "other";
}
