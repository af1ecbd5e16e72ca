// SPDX-License-Identifier: Apache-2.0
// The page's language: the one chosen here, else the browser's, else English. Every text stands in languages/*.js; an
// element names its text by a key, and follows when the language changes.

import en from "./languages/en.js";
import zh from "./languages/zh.js";
import { Remembered } from "./remembered.js";

const LANGUAGES = { en: { tag: "en", texts: en }, zh: { tag: "zh-Hans", texts: zh } };
const remembered = new Remembered("language");
// Where a text can stand in an element: its data attribute -> the attribute that it fills; null: its content.
const PLACES = { text: null, label: "aria-label", hint: "placeholder", alt: "alt", title: "title" };

const valuesOf = new WeakMap(); // element -> {place: values}
let texts, plural, numbers, dates;

/** The text `key`. Its `{name}` are filled from `values`: numbers, dates and `{bytes}` as the language writes them,
 * a list `[key, values]` as that text; `count` chooses between the forms of one and of several. */
export function text(key, values = {}) {
  const entry = texts[key];
  const words = typeof entry === "string" ? entry : entry[plural.select(values.count)];
  return words.replace(/\{(\w+)\}/g, (_, name) => inWords(values[name]));
}

export const knows = (key) => Object.hasOwn(texts, key);

function inWords(value) {
  if (Array.isArray(value)) return text(...value);
  if (typeof value === "number") return numbers.format(value);
  if (value?.bytes !== undefined) return inBytes(value.bytes);
  return value instanceof Date ? dates.format(value) : value;
}

function inBytes(bytes) {
  const [unit, size] = bytes < 1e6 ? ["kilobyte", Math.max(1, Math.round(bytes / 1e3))] : ["megabyte", bytes / 1e6];
  const { locale } = numbers.resolvedOptions();
  return new Intl.NumberFormat(locale, { style: "unit", unit, maximumFractionDigits: 1 }).format(size);
}

/** Puts the text `key` into `element`, now and after each change of the language. */
export function say(element, key, values = {}, place = "text") {
  element.dataset[place] = key;
  valuesOf.set(element, { ...valuesOf.get(element), [place]: values });
  write(element, place);
}

/** Empties what `say` has filled. */
export function hush(element) {
  delete element.dataset.text;
  element.textContent = "";
}

function write(element, place) {
  const words = text(element.dataset[place], valuesOf.get(element)?.[place]);
  if (PLACES[place]) element.setAttribute(PLACES[place], words);
  else if (element.textContent !== words) element.textContent = words;
}

function preferred() {
  const wanted = [remembered.get(), ...navigator.languages];
  return wanted.map(baseOf).find((name) => Object.hasOwn(LANGUAGES, name)) ?? "en";
}

const baseOf = (tag) => tag.toLowerCase().split("-")[0];

/** Speaks `name` from now on. */
function speak(name) {
  const { tag } = LANGUAGES[name];
  const locale = navigator.languages.find((one) => baseOf(one) === name) ?? tag; // British dates for a British browser
  texts = LANGUAGES[name].texts;
  plural = new Intl.PluralRules(tag);
  numbers = new Intl.NumberFormat(locale);
  dates = new Intl.DateTimeFormat(locale, { month: "short", day: "numeric", hour: "numeric", minute: "2-digit" });
  document.documentElement.lang = tag;
  for (const place of Object.keys(PLACES)) {
    for (const element of document.querySelectorAll(`[data-${place}]`)) write(element, place);
  }
}

/** Makes `button` switch to the next language, whose own name it shows. */
export function connect(button) {
  const names = Object.keys(LANGUAGES);
  const next = () => names[(names.indexOf(baseOf(document.documentElement.lang)) + 1) % names.length];
  const show = () => (button.lang = LANGUAGES[next()].tag);
  button.onclick = () => {
    remembered.set(next());
    speak(next());
    show();
  };
  show();
}

speak(preferred());
