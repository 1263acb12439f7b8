// Package page is the demo page: plain HTML, CSS and JavaScript modules, embedded in the binary. There is no
// build step, and nothing is loaded from other origins.
//
//	mux.Handle("GET /", page.Handler()) // the page, its scripts and its icon
//
// In the browser, feed.js manages the connection (snapshots first, then one EventSource after them), model.js
// folds events into agents and their parts, snapshot.js loads a snapshot into the same model, view.js draws
// changes once per frame, and app.js connects them to the page. The session id is in the fragment of the URL,
// so that a reload and a second tab show the same session.
//
// For tests, the body has the state of the page after the text is drawn:
//
//	body[data-status]                         idle, waiting, active, paused, ended, failed
//	body[data-sequence]                       the last record that is shown
//	body[data-connection]                     idle, connecting, live, broken, done, missing
//	[data-session="…"] > .parts > .text       the text of an agent, one element per block
package page
