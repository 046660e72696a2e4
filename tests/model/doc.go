// Package model is a small world in which the replay rules of Holdfast's locks are searched exhaustively.
//
// A lock call over a network has a third outcome besides done and refused: unknown. The reply was lost, or the
// request still sits in some buffer and will be executed later, perhaps after the caller has given up, released, or
// taken the lock again. The rules say how a session sends, repeats and takes back its calls so that no such leftover
// can do harm. They are the code of internal/owner, which the session of this world asks as internal/core does. The
// test walks through every order of events that the world allows:
//
//	  one session, one owner                     network                         server
//	┌────────────────────────┐   acquire #1→1   ┌──────────────────────┐      ┌────────────────┐
//	│ g0 ─┐                  │ ───────────────▶ │ at most one request  │ ───▶ │ owner  #1      │
//	│     ├─ claim           │   release #1→0   │ in flight per claim, │      │ count  1       │
//	│ g1 ─┘  wire owner #1   │ ◀─────────────── │ debts at any time,   │      │ ttl    3 ticks │
//	│ trusted for 2 ticks    │  granted, busy,  │ strays at any later  │      └───────▲────────┘
//	│ debts, corrections     │  late, gone,     │ time or never        │              │
//	└────────────────────────┘  done, nothing   └──────────────────────┘        X, anybody else;
//	                                                                            force unlock; expiry
//
// Two goroutines share an owner. They nest holds of a plain lock; or they read, while a third one writes or not. X is a
// perfect client. Requests and replies may be lost, late, or overtaken by the clock; the bounds limit how often. The
// lease of a plain lock may run out, and the server's clock may run up to a tick ahead of the session's. In the worlds
// with two halves no lease runs out, as their wire owner ends with the hold like any other; in two of them the shared
// half is renewed, and an operator may take it away.
//
// A rule is dropped by ignoring what internal/owner has decided, or by telling it something else; see rules_test.go.
//
// What the search found, and what is easily forgotten in code:
//
//   - A hold that was granted on a repeated attempt and released before its not-after can come back: the first attempt
//     may still arrive. So its wire owner is released once more after the not-after, exactly as after giving up.
//   - Whether that is necessary depends on when the release was sent, not on when its reply comes. The same goes for a
//     busy reply to a repeat, and for a re-entry that finds nothing.
//   - Between the end of a hold and the turn of its release another hold may begin under the same wire owner. The
//     release must leave that one. If that one has ended, too, one release gives both back, and the other finds
//     nothing.
//   - A nested release that leaves one hold must not leave the number 1 while a release that knows this number may be
//     in flight.
//   - What a release without a reply must leave is decided before its turn is over.
//   - A repeated attempt needs another number than before: a release may be in doubt by now.
//   - A copy of a re-entry may be executed after the last release: the write hold in which it nests is still there.
//   - A correction that finds nothing has to end the remaining holds, or the release that is owed takes a new one.
//   - A renewal may be executed after a trim whose reply comes later. The trim says nothing of its lease.
//   - A renewal that finds nothing of a shared half says nothing of a hold that is newer than its call. What copies may
//     bring back is given back in turn, or it takes that hold.
//   - A release without a reply is owed even if a renewal has found nothing since: a copy may yet be executed.
//
// Worlds of another kind have renewals, leases of different length, and trims, which shorten a lease. In them the
// server's clock may also be set back, and counts do not matter.
//
// Calls of two owners may hand the lock over to each other, in the worlds of handover_test.go. What the search found:
//
//   - A claim may pass on only if no other call knows it, and if no hold was detached from it.
//   - What is known of copies stays with the grant: the debt has to follow its last release, whoever makes that.
//   - A call may be granted the lock under its own wire owner after it was handed over to it, because the server has
//     lost that one. Then what was handed over is lost, and copies of its acquisition may still be executed.
//   - A nested release that is under way for the claim, or was lost, is no danger to the heir's hold.
//
// So five of the conditions prevent no violation, alone or together, nor do they in a larger world in which holds are
// nested and calls get lost (3,000,000 states, more than the tests have time for). The library keeps them by choice:
//
//   - passUnlost, passUnreturned: a grant that has lost a hold, or whose release was sent, has a correction or a debt
//     ahead of it. It goes back to the server, which knows what is left, so that no chain of heirs grows upon it.
//   - passThere: the library records a loss, and then ends the holds one by one; the model does both in one step. A
//     hold that passed on in between would be released without an error, though it was known to be lost.
//   - passIdle, heirIdle: the reply to a call that is under way is for the owner that has made it. If its claim became
//     another owner's, errors, events and logs would tell the wrong one.
//
// Sessions may stand in a line on the server, in the worlds of the files named line: a release hands the lock to the
// first that lives, and a message tells it. What the search found:
//
//   - A wire owner stands in the line only once, by its first call. If a later call put it there again, because it had
//     been handed the lock and lost it, the session would take the message of that time for one of the present place:
//     it would count trust from that call, and somebody else has the lock.
//   - A copy of a first call may stand in the line after the hold of its wire owner was released. So whatever gives a
//     wire owner back once more takes it out of the line, too.
//   - A copy of a call may make the lease that a release has granted as long as the session's. So the session must not
//     take the grant for over before.
//   - A place that is left to another call of the session is left with the moment since which it is known.
//   - If the first in the line is dead while X has the lock, nobody hears of X's release. So the next one that calls
//     drops it.
//   - If a server takes over that lacks the last write, a wire owner that was granted the lock may still stand in the
//     line, while a message of the former server is unread. It is read before the next call is sent. That call would
//     find the wire owner waiting, and the session would take the message for one of a later grant.
//
// A failover promises nothing to a call that was granted the lock by that write. If the write gave back a hold or a
// place, it is there once more until its lease ends. Calls under way have no reply, and unread messages are lost,
// because the connections to the former server end.
//
// Of the line they leave out renewals, calls that share an owner, and holds with a lease of their own, which believe no
// message. A session that closes is one whose call gives up and whose subscription is lost.
//
// Or waiters stand each for themselves in Redisson's queue, in the worlds of the files named fair, and a release hands
// the lock to the first that hears. These are worlds of a line with another server. What the search found:
//
//   - Who is granted the lock leaves all four keys of the queue, also if a call of its own is granted the lock when
//     others have dropped it. If one key still has it, a late call takes its place for one that it has never lost.
//   - A waiter whose turn comes while its session does not hear leaves the queue, but not this toolkit's own keys. So
//     it comes back to its place, and under the same wire owner: no message was sent.
//   - A waiter listens on Redisson's channel if others have the lock, or stand in front of it.
//
// They leave out what Redisson computes with its scores: a client of Redisson drops the first in the queue at any time.
//
// Or sessions wait for permits of a semaphore in a line, in the worlds of the files named perm. A release tells those
// for whom there is room, and each of them takes by a call of its own. What the search found:
//
//   - A take makes room for nobody: those behind have as much as before. Room comes where permits come back, or a place
//     goes without a take. So a take need tell nobody.
//   - A call that finds no room tells those in front for whom there is some, or one of them that was never told, and is
//     dead, stands in its way.
//   - One that is dead and wants more than is free is never told. So it is asked whether it is there.
//   - All who wait listen to Redisson's channel. If only the first did, the next one would not know that it is first.
//   - While a session begins to listen there, it counts as one who does not know the line, or it would hide one.
//   - A call that was given up in flight may stand in the line after its place was left. So that is left once more.
//   - A call whose permits have ids may have them already, and others stand in front of it now.
//   - A failover may lose a place, and gives permits back or takes them. Waiters look when they are subscribed again.
//
// They have no clock. They leave out lost releases, and who gets how many where X waits, too.
//
// All of them leave out more than two nested holds, more than one server, and a process that stops between a look at
// its trust and the act that relies on it.
//
// The files:
//
//   - rules_test.go: the rules, each a switch that can be turned off, and the bounds;
//   - world_test.go: the state: server, network, session, goroutines;
//   - key_test.go: when two are equal;
//   - server_test.go: what the scripts do on the server;
//   - session_test.go: what the session makes of a reply, or of none, by asking internal/owner;
//   - releases_test.go: likewise of a reply to a release;
//   - moves_test.go: everything that can happen next;
//   - clocks_test.go: likewise as time passes;
//   - leases_test.go: likewise where leases differ;
//   - check_test.go: what must never be seen;
//   - search_test.go: the breadth-first search, so that every trace is a shortest one;
//   - locks_test.go: all rules together allow no violation; without any one of them there is the violation that it
//     prevents; what the rules do not promise;
//   - handover_test.go, handover_locks_test.go: owners that hand the lock over to each other, and their searches;
//   - line_rules_test.go, line_world_test.go, line_server_test.go, line_session_test.go, line_moves_test.go,
//     line_check_test.go, line_locks_test.go: sessions that stand in a line, in the same order;
//   - fair_rules_test.go, fair_server_test.go, fair_moves_test.go, fair_locks_test.go: what differs in a fair lock;
//   - perm_rules_test.go, perm_world_test.go, perm_server_test.go, perm_session_test.go, perm_moves_test.go,
//     perm_check_test.go, perm_locks_test.go: sessions that wait for permits.
package model
