package demo

import "time"

// An order is what the coordinator tells a worker process: one line of JSON on its stdin. The
// first is setUp. The end of stdin is an order too: stop at once.
type order struct {
	Do    verb   `json:"do"`
	Setup *setup `json:"setup,omitempty"`
	Job   int    `json:"job,omitempty"` // from 1
}

type verb string

const (
	setUp   verb = "set up"  // with a setup
	start   verb = "start"   // working
	linger  verb = "linger"  // whoever holds next stays in the midst of it …
	pause   verb = "pause"   // who does not hold does not ask …
	keep    verb = "keep"    // who writes next keeps reading what it wrote …
	proceed verb = "proceed" // … until now
	leave   verb = "leave"   // one who waits gives up
	deal    verb = "deal"    // a job to one who asks
	finish  verb = "finish"  // what was begun, and end
)

// A setup is what a worker process has to know. It does not travel on the command line, which
// everybody on the machine can read, because a URL may carry a password.
type setup struct {
	Scene      string        `json:"scene"`
	Number     int           `json:"number"` // of the worker, from 1
	Redis      []string      `json:"redis"`  // URLs of servers that are independent of each other
	Lease      time.Duration `json:"lease"`
	Pace       time.Duration `json:"pace"`           // of computing
	Rest       time.Duration `json:"rest,omitempty"` // between two acquisitions, at most
	Goroutines int           `json:"goroutines"`
	Name       string        `json:"name"` // of the lock
	File       string        `json:"file"` // that is shared, and protected by nothing else
}

// An event is what happened to a worker process: one line of JSON on its stdout.
type event struct {
	What      what          `json:"what"`
	Goroutine int           `json:"goroutine,omitempty"` // from 0
	Value     int           `json:"value,omitempty"`     // that was read, or written
	Waited    time.Duration `json:"waited,omitempty"`
	Left      time.Duration `json:"left,omitempty"` // until the deadline of the hold
	Text      string        `json:"text,omitempty"`

	worker int       // who says so, from 1
	at     time.Time // when the coordinator heard it
	queue  []string  // that the coordinator saw
	err    error     // of what the coordinator tried
}

// A what is the kind of an event. In the scene pool the lock is a permit, and Value is a job.
type what string

const (
	ready   what = "ready"   // connected; Text is the session
	waiting what = "waiting" // asks for the lock
	holds   what = "holds"   // has the lock after Waited, as Text, and has read Value
	lingers what = "lingers" // holds, has read Value, and stays there
	wrote   what = "wrote"   // Value; the lock is still held
	lost    what = "lost"    // has found out, before it wrote Value; Text is the error
	saw     what = "saw"     // has read both numbers of the document: Value
	torn    what = "torn"    // has read two numbers that differ, which Text says
	keeps   what = "keeps"   // has written Value, goes on reading, and is about to let others read
	renewed what = "renewed" // the deadline of the hold has moved on; it is Left from now
	expired what = "expired" // the hold has ended by itself, Left before its deadline
	rests   what = "rests"   // does not need the lock for a while
	arrived what = "arrived" // is ready, and waits for the others
	idle    what = "idle"    // asks for a job
	pauses  what = "pauses"  // does not ask for the lock, on order
	left    what = "left"    // has given up waiting
	queued  what = "queued"  // told by the coordinator's side, of who stands in the queue
	tried   what = "tried"   // told by the coordinator's side, of an attempt of its own
	opened  what = "opened"  // told by the coordinator's side, of a latch that it waited for
	exited  what = "exited"  // told by the coordinator's side; Text is the error, if any
)
