// Figures as people read them.

const COUNT = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const SHORT = new Intl.NumberFormat("en", { maximumSignificantDigits: 3, notation: "compact" });

/** @param {number | bigint | null | undefined} n @returns {string} */
export function count(n) {
	return n === null || n === undefined ? "–" : COUNT.format(n);
}

/** A figure in three digits: 12.3K. @param {number} n @returns {string} */
export function short(n) {
	return n < 10 && n > 0 ? n.toFixed(1) : SHORT.format(n);
}

/** @param {number | null | undefined} n @returns {string} */
export function bytes(n) {
	if (n === null || n === undefined) return "–";
	const units = ["B", "KiB", "MiB", "GiB", "TiB"];
	let at = 0;
	let left = n;
	while (left >= 1024 && at < units.length - 1) {
		left /= 1024;
		at += 1;
	}
	return `${at === 0 || left >= 100 ? left.toFixed(0) : left.toFixed(1)} ${units[at]}`;
}

/** A time in a fitting unit. @param {number | null | undefined} ms @returns {string} */
export function duration(ms) {
	if (ms === null || ms === undefined) return "–";
	if (ms < 0.001) return "0 µs";
	if (ms < 1) return `${(ms * 1000).toFixed(ms < 0.1 ? 1 : 0)} µs`;
	if (ms < 1000) return `${ms.toFixed(ms < 10 ? 2 : ms < 100 ? 1 : 0)} ms`;
	const s = ms / 1000;
	if (s < 120) return `${s.toFixed(s < 10 ? 1 : 0)} s`;
	if (s < 7200) return `${(s / 60).toFixed(0)} min`;
	if (s < 172800) return `${(s / 3600).toFixed(0)} h`;
	return `${(s / 86400).toFixed(0)} days`;
}

/** @param {number | null | undefined} seconds @returns {string} */
export function seconds(seconds) {
	return seconds === null || seconds === undefined ? "–" : duration(seconds * 1000);
}

/** A moment as date and time. @param {number | null} ms @returns {string} */
export function moment(ms) {
	if (ms === null || ms < 0) return "–";
	const date = new Date(ms);
	return Number.isNaN(date.getTime()) ? String(ms) : date.toISOString().replace("T", " ");
}

/** @param {number} share @returns {string} */
export function percent(share) {
	return `${Math.round(share * 100)} %`;
}
