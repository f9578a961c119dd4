// Starts the page.
import { render } from "preact";
import { App } from "./app";
import { listen } from "./live";
import "uplot/dist/uPlot.min.css";
import "./style.css";

render(<App />, document.getElementById("page")!);
void listen();
