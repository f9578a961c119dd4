// The dialog that asks for the server's bearer token, once per browser tab.
import { useEffect, useRef, useState } from "preact/hooks";
import { headers, needToken, setToken } from "./api";
import { useStore } from "./store";

export function Token() {
  const needed = useStore(needToken);
  const ref = useRef<HTMLDialogElement>(null);
  const [text, setText] = useState("");
  const before = "Authorization" in headers();
  useEffect(() => {
    if (needed && !ref.current?.open) ref.current?.showModal();
  }, [needed]);
  const submit = (e: Event) => {
    e.preventDefault();
    setToken(text.trim());
    location.reload();
  };
  return (
    <dialog ref={ref} aria-labelledby="token-h">
      <form onSubmit={submit}>
        <h2 id="token-h">This server requires a bearer token</h2>
        <p>{before ? "The token does not match the server's token." : "Enter the token that the server was started with (--token-file or INGERO_TOKEN)."} The page keeps it until you close this tab.</p>
        <label>
          Token{" "}
          <input type="password" autocomplete="off" required minLength={16} value={text} onInput={(e) => setText(e.currentTarget.value)} />
        </label>
        <p>
          <button type="submit" class="main">
            Open
          </button>
        </p>
      </form>
    </dialog>
  );
}
