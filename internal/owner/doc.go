// Package owner has the rules of a lock's owner: what it has of a name, which attempt comes next, what a
// release is to leave, what may still have to be given back, and how long a lease must last. They are pure:
// the moment is an argument, what is to be done is a result, and nothing here sends, waits or locks.
// internal/core calls them under a claim's mutex and does what they say; tests/model searches them through
// every order of events that it can think of.
//
// # Words
//
//	owner       who asks; to Holdfast what a thread is to Redisson. A context carries it.
//	wire owner  what the server knows a holder by. Each outermost acquisition has its own, never used again; one to which
//	            the lock is handed over inside the session takes over that of the one before.
//	claim       what one owner has of one name: a grant of each half, under one wire owner.
//	grant       one outermost acquisition with what is nested in it: the time for which a wire owner has a half.
//	hold        one acquisition: what the user gets. It is trusted until a moment, which renewals move.
//	request     one call that wants the name, with as many attempts as it takes.
//	copy        a call without a reply, executed later. An acquisition refuses itself after its not-after.
//	remaining   what a release is to leave. It names the count, so a copy of it does no harm.
//	number      which hold of a shared half: its wire owner lives on, so a late release must know what is newer.
//	debt        a wire owner to be given back in the background: at once, and when no copy of it can come.
//
// # The life of a grant
//
//	            Next                no reply, and the call ends: GiveUp ────────────► debt
//	request ─────────────► sent ──┤
//	   ▲   Failed, Busy     │       granted too late to be trusted: GiveUp ──────────► debt
//	   └────────────────────┤
//	                        │ Granted: Begin, Add
//	                        ▼
//	  ┌─ Reenter: Add ──►  live ─── the lease ran out, or the server dropped it ────► lost
//	  └──────────────────  1…n        Lose, Drop, Sweep: a debt, or a correction
//	                        │ ▲
//	                        │ └──── a hold ends, but not the last: Drop, Remaining{Count: n−1}
//	                        │ the last hold ends: Drop, Remaining{Count: 0}
//	                        ▼
//	                    releasing ─ no reply: InDoubt, Owe ─────────────────────────► debt
//	                        │
//	                        │ Replied: freed; or absent, so it was lost
//	                        ▼
//	                     returned ─ a copy of its acquisition may come: Recheck ────► debt
package owner
