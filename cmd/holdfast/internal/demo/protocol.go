package demo

import "time"

// An order is what the coordinator tells a worker process: a string of JSON on its stdin, after a setup. The end of
// stdin is an order too: stop at once.
type order string

const (
	start   order = "start"   // begin to work
	linger  order = "linger"  // the next goroutine that gets the lock keeps it …
	proceed order = "proceed" // … until now
	giveUp  order = "give up" // one waiting goroutine stops waiting
	finish  order = "finish"  // complete what was begun, and end
)

// A setup is what a worker process needs to know first. It does not travel on the command line, which
// everybody on the machine can read, because a URL may carry a password.
type setup struct {
	Scene      string        `json:"scene"`
	Redis      string        `json:"redis"` // the server's URL
	Name       string        `json:"name"`  // of the lock
	File       string        `json:"file"`  // shared, and protected by the lock alone
	Number     int           `json:"number"`
	Goroutines int           `json:"goroutines"`
	Lease      time.Duration `json:"lease"`
	Pace       time.Duration `json:"pace"` // how long the work under the lock takes
}

// An event is what happened in a worker process: one line of JSON on its stdout.
type event struct {
	What  what   `json:"what"`
	Value int    `json:"value,omitempty"` // the number that was read or written
	Text  string `json:"text,omitempty"`

	worker int       // the process that tells it, from 1
	at     time.Time // when the coordinator heard it
}

type what string

const (
	ready   what = "ready"   // connected; Text is the session's id
	holds   what = "holds"   // got the lock as hold Text, and has read Value; or a permit, and Value are at work
	lingers what = "lingers" // as ordered; the hold is Text, and Value has been read
	wrote   what = "wrote"   // Value; the lock is still held
	lost    what = "lost"    // found out that the lock was lost, and did not write; Text is the error
	did     what = "did"     // a job; the permit is still held
	exited  what = "exited"  // the process has ended; Text is its error, if any
)
