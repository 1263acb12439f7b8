// Package page is the demo page: plain HTML, CSS and JavaScript modules, held in
// the binary and served as they are. There is no build step, and nothing is
// loaded from elsewhere.
//
//	mux.Handle("GET /", page.Handler()) // the page, its scripts and its icon
//
// In the browser, feed.js holds the connection (snapshots first, then one
// EventSource after them), model.js folds events into agents and their parts,
// snapshot.js puts a snapshot into the same model, view.js draws what changed
// once per frame, and app.js binds them to the page. The session's id is in the
// address behind the #, so that a reload and a second tab show the same one.
//
// For tests, the body tells how far the page is, after the text is drawn:
//
//	body[data-status]                         idle, waiting, active, paused, ended, failed
//	body[data-sequence]                       the last record that is shown
//	body[data-connection]                     idle, connecting, live, broken, done, missing
//	[data-session="…"] > .parts > .text       what an agent said, one element per block
package page
