// Package replaymodel is a small world in which the replay rules of Holdfast's locks are searched exhaustively.
//
// A lock call over a network has a third outcome besides done and refused: unknown. The reply was lost, or the request still
// sits in some buffer and will be executed later, perhaps after the caller has given up, released, or taken the lock again.
// The rules say how a session sends, repeats and takes back its calls so that no such leftover can do harm. This package has
// no code of its own but the search; its test is the argument for the rules. It walks through every order of events that this
// world allows:
//
//	  one session, one owner                     network                         server
//	┌────────────────────────┐   acquire #1→1   ┌──────────────────────┐      ┌────────────────┐
//	│ g0 ─┐                  │ ───────────────▶ │ at most one request  │ ───▶ │ owner  #1      │
//	│     ├─ wire owner #1   │   release #1→0   │ in flight per op,    │      │ count  1       │
//	│ g1 ─┘  count 1         │ ◀─────────────── │ one stray executed   │ ◀─── │ ttl    3 ticks │
//	│ trusted for 2 ticks    │  granted, busy,  │ at any later time    │      └───────▲────────┘
//	└────────────────────────┘  late, gone,     │ or never             │              │
//	                            done, nothing   └──────────────────────┘         X, the other owner;
//	                                                                             force unlock; expiry
//
// Two goroutines share an owner, so their holds nest. Every request and every reply may be lost, late, or overtaken by the clock.
// X is a perfect client: it takes the lock whenever it is free and gives it back at any time. The server's clock may run up to a
// tick ahead of the session's. A lease is three ticks, a not-after one, the margin one; all times are stored as ticks left, so
// time itself needs no bound and the search ends by itself. Only the number of acquisitions and of strays at one moment is bounded.
//
// Four things that the search found and that are easily forgotten in code:
//
//   - A hold that was granted on a repeated attempt and released before its not-after can come back: the first attempt may still
//     arrive. So its wire owner is released once more after the not-after, exactly as after giving up.
//   - "Busy" and "late" in reply to a repeat say nothing about the attempt before it. That acquisition is given up, with its undos.
//   - The undo after the not-after is an operation like any other: beside a release in flight, it would turn success into ErrLost.
//   - Re-entries need a not-after, too, or a stray one prolongs, by a lease, a key whose holder has lost it already.
//
// Not in this world: renewals, more than two nested holds, more than one server, leases of different length, lost replies to the
// undo after the not-after (it is repeated until it is answered, and seen here as one step), and a process that stops between a
// look at its trust and what it does then.
//
// A second, smaller world has renewals and leases of different length, and trims, which make a lease shorter. In it the server's
// clock may be set back as well. What that search found: the session must reckon with a trim that had no reply for longer than
// the trim's not-after says, as the not-after is a matter of the server's clock.
//
// Where to read what:
//
//   - rules_test.go: the rules, each a switch that can be turned off;
//   - world_test.go: the state: server, network, session, goroutines;
//   - scripts_test.go: what acquire and release do on the server;
//   - moves_test.go: everything that can happen next;
//   - session_test.go: what the session makes of a reply, or of none;
//   - invariants_test.go: what must never be seen;
//   - search.go: the breadth-first search, so that every trace is a shortest one;
//   - replay_test.go: all rules together allow no violation; each rule taken out allows the one it is there for;
//     what the rules do not promise. With -deep, larger worlds;
//   - trimworld_test.go, trim_test.go: the world of trims, all of it, and its searches.
package replaymodel
