// Stubs of the browser APIs that the modules use while they load.
const address = new URL("http://127.0.0.1/?last=1h");
const page = new EventTarget();
Object.assign(globalThis, {
  location: address,
  addEventListener: page.addEventListener.bind(page),
  removeEventListener: page.removeEventListener.bind(page),
  dispatchEvent: page.dispatchEvent.bind(page),
  document: { getElementById: () => null, hidden: false, documentElement: { dataset: {} } },
  sessionStorage: { getItem: () => null, setItem: () => {} },
  history: {
    pushState: (_state: unknown, _title: string, to: string) => {
      address.href = new URL(to, address).href;
    },
  },
});
