// Package rwreplaymodel is a small world in which the replay rules of the read-write lock are searched exhaustively, as those
// of the mutex are in its sibling replaymodel. It has no code of its own; its test is the argument for the rules.
//
// What is new is that a wire owner lives on. Of a mutex each outermost hold has a wire owner that is never used again, so that a
// late copy of its release finds nothing. But who writes may read, and stop, and read again, any number of times, all under the
// wire owner of its write hold, and may go on reading when the writing is over. Copies of releases of former read holds must
// leave the present one alone:
//
//	  one session, one wire owner                  network                         server
//	┌───────────────────────────┐   acquire →2   ┌──────────────────────┐      ┌─────────────────────┐
//	│ writer, until it gives up │ ─────────────▶ │ at most one request  │ ───▶ │ writes  yes         │
//	│ g0 ─┐ their read holds    │   release →0,  │ in flight of claims, │      │ reads   2           │
//	│ g1 ─┘ have numbers        │   ceiling 2    │ debts at any time,   │      │ keys    of 1 and 2  │
//	│                           │ ◀───────────── │ strays at any later  │      └──────────▲──────────┘
//	│ debts, corrections        │  granted, late │ time or never        │                 │
//	└───────────────────────────┘  gone, done …  └──────────────────────┘        X, who reads or writes
//
// So read holds are numbered; the count that the server has is the highest number. A release carries a ceiling, the highest
// number asked for by then: a higher count is newer, and stays. Where a release may yet be executed holds ask for numbers above
// those that it knows of.
//
// Five things that the search found and that are easily forgotten in code:
//
//   - Between the end of a hold and the turn of its release another hold may begin under the same wire owner. The release must
//     leave that one, whose number may be the same; and if that one has ended, too, one release gives both back, and the other
//     finds nothing, which is no loss.
//   - A nested release that leaves one hold must not leave the number 1, if a release that knows of it may be under way.
//   - What a release without a reply owes is decided before its turn is over. A moment later the ceiling is another.
//   - An attempt that is repeated needs another number than before: a release may have come to be in doubt since.
//   - A copy of a re-entry may be executed after the last release: there still is the write hold for it to be nested in.
//
// Not in this world: leases that run out, renewals, force unlock, waiters, and write holds that nest; for all of them the
// wire owner ends with the hold, as in replaymodel. Lost requests and replies are counted, so that numbers have a bound.
//
// Where to read what:
//
//   - rules_test.go: the rules, each a switch that can be turned off;
//   - world_test.go: the state: server, network, session, goroutines;
//   - scripts_test.go: what the scripts do on the server;
//   - moves_test.go: everything that can happen next;
//   - session_test.go: what the session makes of a reply, or of none;
//   - invariants_test.go: what must never be seen;
//   - replay_test.go: all rules together allow no violation; each rule taken out allows the one it is there for.
//     With -deep, larger worlds.
package rwreplaymodel
