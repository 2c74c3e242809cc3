// The first attempt to follow the home: the page asks before the scripts of its views are read.
import { begin } from "./api.js";
import { start } from "./store.js";

/** attempt ends when the home has answered. */
export const attempt = begin().then(start);
attempt.catch(() => {}); // whoever waits for it is told
