// Numbers as text, and text as elements.  Everything that came with the data is untrusted: it enters the page as text
// nodes (`createElement`), and plotly, which reads some HTML in its labels, receives it escaped (`plotlyText`).

const SUPERSCRIPT = { "-": "\u207b", 0: "\u2070", 1: "\u00b9", 2: "\u00b2", 3: "\u00b3", 4: "\u2074", 5: "\u2075",
  6: "\u2076", 7: "\u2077", 8: "\u2078", 9: "\u2079" };

/** Three significant digits; powers of ten for very large and very small numbers. */
function formatNumber(value) {
  if (value === null || Number.isNaN(value)) return "\u2013";
  if (!Number.isFinite(value)) return value > 0 ? "\u221e" : "\u2212\u221e";
  const size = Math.abs(value);
  if (size === 0) return "0";
  if (size >= 999500 || size < 0.0005) {
    const [digits, power] = value.toExponential(2).split("e");
    const raised = [...String(Number(power))].map((c) => SUPERSCRIPT[c]).join("");
    return `${Number(digits)}\u202f\u00d7\u202f10${raised}`;
  }
  const decimals = Math.max(0, 2 - Math.floor(Math.log10(size)));
  return value.toLocaleString("en", { minimumFractionDigits: decimals, maximumFractionDigits: decimals });
}

/** A number at an axis, without trailing zeros. */
function formatTick(value) {
  const short = Math.abs(value) >= 1e-3 && Math.abs(value) < 1e6;
  return short ? String(Number(value.toPrecision(3))) : formatNumber(value);
}

const formatCount = (value) => value.toLocaleString("en");
const formatLength = (value) => formatNumber(value) + (data.unit && Number.isFinite(value) ? `\u00a0${data.unit}` : "");

/** A share of which 100 % means all: it is rounded down. */
function formatPercent(share) {
  if (Number.isNaN(share)) return "\u2013";
  return `${share < 1 && share > 0.1 ? Math.floor(1000 * share) / 10 : Number((100 * share).toPrecision(3))}\u00a0%`;
}

const countOf = (count, one, several = `${one}s`) => `${formatCount(count)} ${count === 1 ? one : several}`;
const capitalised = (text) => text.charAt(0).toUpperCase() + text.slice(1);

/** A long text without its middle: names of specimens differ at their ends. */
function truncated(text, most) {
  const characters = [...text];
  if (characters.length <= most) return text;
  const head = Math.ceil((most - 1) / 2);
  const tail = characters.slice(characters.length - (most - 1 - head));
  return `${characters.slice(0, head).join("")}\u2026${tail.join("")}`;
}

/** A sentence of this page in the words for what was registered; not for texts that hold names. */
function inWords(text) {
  const found = { cloud: words.cloud, clouds: words.clouds, landmark: words.landmark, landmarks: words.landmarks,
    "the map": `the ${words.map}`, "sensor-frame error": words.sensor_error };
  const anyWord = /\b([Cc]louds?|[Ll]andmarks?|[Tt]he map|[Ss]ensor-frame error)\b/g;
  return text.replace(anyWord, (word) => {
    const lower = word.toLowerCase();
    return word === lower ? found[lower] : capitalised(found[lower]);
  });
}

const withUnit = (quantity) => (data.unit ? `${quantity} (${data.unit})` : quantity);

/** Text for plotly's labels, which would otherwise interpret tags, entities and links in it. */
function plotlyText(text, most = 48) {
  return truncated(text, most).replace(/[\s\u2028\u2029]+/g, " ")
    .replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
}

/** A new element; strings become text nodes, never markup. */
function createElement(tag, attributes = {}, ...children) {
  const created = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) created.setAttribute(name, value);
  created.append(...children);
  return created;
}

/** A name in an element of its own, so that one that runs right to left leaves its surroundings alone. */
const nameElement = (text) => createElement("bdi", {}, text);

/** One paragraph for each text or list of texts and elements; empty ones are skipped. */
function appendParagraphs(parent, texts, attributes = {}) {
  for (const text of texts) if (text) parent.append(createElement("p", attributes, ...[].concat(text)));
}
