// The search runs in a worker, and browsers start no worker for a page that was opened from disk (file:). There it runs
// in a hidden frame instead, which talks as a worker does: postMessage, onmessage, importScripts.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      this.onmessage = this.onerror = null;
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.appendChild(frame);
      this.frame = frame;
      const inside = frame.contentWindow;
      inside.document.open();
      inside.document.write("<!doctype html><html><body></body></html>");
      inside.document.close();
      const load = (address) => new Promise((resolve, reject) => {
        const script = inside.document.createElement("script");
        script.src = address;
        script.onload = resolve;
        script.onerror = () => reject(new Error("cannot load " + address));
        inside.document.body.appendChild(script);
      });
      inside.importScripts = (...addresses) =>
        addresses.reduce((before, address) => before.then(() => load(address)), Promise.resolve());
      inside.postMessage = (data) => this.tell(new MessageEvent("message", { data }));
      this.inside = inside;
      this.ready = load(String(url)).catch((error) => this.tell(new ErrorEvent("error", { error })));
    }
    tell(event) {
      this.dispatchEvent(event);
      const handler = this["on" + event.type];
      if (handler) handler.call(this, event);
    }
    postMessage(data) {
      this.ready.then(() => this.inside.dispatchEvent(new MessageEvent("message", { data })));
    }
    terminate() {
      this.frame.remove();
    }
  };
}
