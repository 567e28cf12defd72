// The server: requests, uploads, and its events.
import { SAY } from "./words.js";

const WRITES = { "X-Nlridge": "1" };

export class Refused extends Error {
  constructor(sentence, status) {
    super(sentence);
    this.status = status;
  }
}

async function refusal(response) {
  let sentence = "";
  try { sentence = (await response.json()).error; } catch { /* an answer without words */ }
  return new Refused(sentence || SAY.answeredWith(response.status), response.status);
}

// Answers and events come on several connections, and may overtake each other. The first event of a connection describes
// everything; answers to changes wait for it, since it may be older: it would undo on the page what they say.
let described, describe = () => {};
function expectDescription() {
  const earlier = describe;
  described = new Promise((resolve) => { describe = resolve; });
  earlier(described);  // whoever waits for a connection that broke waits for the next
}

// Sends a request, with a body of JSON if there is one, and returns the response. Errors are sentences.
async function send(method, path, body) {
  const headers = method === "GET" ? {} : { ...WRITES };
  if (body !== undefined) headers["Content-Type"] = "application/json";
  let response;
  try {
    response = await fetch(path, { method, headers, body: body === undefined ? undefined : JSON.stringify(body) });
  } catch {
    throw new Refused(SAY.silent, 0);
  }
  if (!response.ok) throw await refusal(response);
  if (method !== "GET") await described;
  return response;
}

export async function request(method, path, body) {
  const text = await (await send(method, path, body)).text();
  return text ? JSON.parse(text) : null;
}

// Downloads the file with which the server answers.
export async function download(path, body) {
  const response = await send("POST", path, body);
  const words = response.headers.get("Content-Disposition") || "";
  const encoded = words.match(/filename\*=(?:utf-8|UTF-8)''([^;]+)/);
  const plain = words.match(/filename="?([^";]+)"?/);
  const link = document.createElement("a");
  link.download = encoded ? decodeURIComponent(encoded[1]) : plain ? plain[1] : "denoised";
  link.href = URL.createObjectURL(await response.blob());
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
  return link.download;
}

// Uploads a file and returns its image; `progress` is called with the share that was sent.
export function upload(file, progress) {
  return new Promise((resolve, reject) => {
    const sender = new XMLHttpRequest();  // fetch has no progress for uploads
    sender.open("POST", `/api/images?name=${encodeURIComponent(file.name || "pasted")}`);
    for (const [name, value] of Object.entries(WRITES)) sender.setRequestHeader(name, value);
    sender.setRequestHeader("Content-Type", "application/octet-stream");
    sender.upload.addEventListener("progress", (event) => { if (event.total) progress(event.loaded / event.total); });
    sender.addEventListener("error", () => reject(new Refused(SAY.silent, 0)));
    sender.addEventListener("load", () => {
      let answer = {};
      try { answer = JSON.parse(sender.responseText); } catch { /* an answer without words */ }
      if (sender.status < 300) resolve(described.then(() => answer));
      else reject(new Refused(answer.error || SAY.answeredWith(sender.status), sender.status));
    });
    sender.send(file);
  });
}

// Listens to the events of the server, and connects again when the connection breaks. `lost` is called whenever there is no
// connection, except for a moment.
//
// A browser keeps at most six connections to a server, for all its tabs. If each tab listened, the seventh would never be
// answered, nor would the others: those that nobody sees do not listen.
export function listen(receive, lost) {
  let source, timer, alarm, leaving, away = false, failures = 0;
  function leave() {
    away = true;
    clearTimeout(timer);
    clearTimeout(alarm);
    source.close();
  }
  function look() {
    clearTimeout(leaving);
    if (document.visibilityState === "hidden") leaving = setTimeout(leave, 1000);
    else if (away) connect();
  }
  function connect() {
    away = false;
    clearTimeout(timer);
    if (source) source.close();
    expectDescription();
    source = new EventSource("/api/events");
    source.addEventListener("open", () => {
      clearTimeout(alarm);
      failures = 0;
    });
    source.addEventListener("message", (event) => {
      receive(JSON.parse(event.data));
      describe();
    });
    source.addEventListener("error", () => {
      source.close();
      failures += 1;
      if (failures === 1) alarm = setTimeout(lost, 700);
      else lost();
      timer = setTimeout(connect, 1000);
    });
  }
  connect();
  look();
  document.addEventListener("visibilitychange", look);
  return connect;
}
