package campaign

import "time"

// What an event may be.
const (
	asks     = "asks"     // a call begins that waits
	refused  = "refused"  // a call has ended without what it asked for
	has      = "has"      // a call has returned with it
	still    = "still"    // it was held, a moment after this one
	over     = "over"     // its end was noticed; the holder did not ask for it
	released = "released" // a release has returned; of what has no lease, it begins
	forces   = "forces"   // a call begins that frees it by force
	forced   = "forced"   // that has returned
	counts   = "counts"   // a call begins that counts a latch down
	isDown   = "is down"  // the latch is certainly down
	waits    = "waits"    // a call begins that waits at a latch
	opened   = "opened"   // that has returned
	strange  = "strange"  // something that nobody can explain
	excused  = "excused"  // an error that a stroke may explain
	strikes  = "strikes"  // the nemesis has done something
	undoes   = "undoes"   // that is over
	left     = "left"     // a process ends: how many MiB it has left on the heap, and which goroutines
)

// How calls end, by [kit.ClassOf].
const (
	busy = "busy"
	done = "done"
)

// An event is what a client tells, in the moment At of the clock that all processes share.
type event struct {
	At     time.Duration
	Asked  time.Duration `json:",omitempty"` // when the call began that has had it
	Client int
	What   string
	Object object
	Grant  int // of the client
	Shares bool
	Count  int
	Token  int64  `json:",omitempty"`
	Text   string `json:",omitempty"`
}
