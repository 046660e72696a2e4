package model_test

import "time"

// rules are what a session and its scripts keep to. Those of the session are package owner's. Every field is one rule;
// false takes it out: the model drops what the package has decided, or tells it something else.
type rules struct {
	// Requests.

	freshOwner    bool // each outermost acquisition has a wire owner of its own, never used again
	serialised    bool // one operation in flight per claim; the others wait
	targetCounts  bool // a request carries the count to reach; without: the change is made only from the expected count
	neverRecreate bool // a re-entry finds the lock or fails; it never creates it
	notAfter      bool // an outermost acquire executed later than its not-after refuses itself
	notAfterToo   bool // so does a re-entry

	// Numbers of the holds of a shared half.

	ceilings     bool // a release carries the highest number asked for; a higher count is newer, and stays
	skipNumbers  bool // where a release may be under way, holds ask for numbers above those that it knows of
	freshNumbers bool // so does an attempt that is repeated; without: it keeps its number
	keepNumbers  bool // a release that leaves holds leaves such a number; without: as many as there are

	// Releases.

	restOfOwner bool // a release leaves what the wire owner has; without: what its own grant has
	oneRelease  bool // a release that finds nothing is forestalled by that of another grant under the wire owner
	awaitTurn   bool // a release that has had no turn in time is made in its turn all the same; without: at once
	correctLoss bool // a correction that finds nothing ends the holds that are left
	oweInTurn   bool // what a release without a reply leaves is decided while it has its turn; without: afterwards

	// Acquisitions whose outcome is in doubt.

	doubtRefusal bool // a refused repeat says nothing about the attempt before it
	undoAtOnce   bool // a given-up acquisition is undone at once
	undoAgain    bool // … and once more after its not-after
	undoOwn      bool // an undo has the number of its own acquisition as its ceiling; without: the highest
	// an undo may take along what has ended already: its release then finds nothing, and has not lost it
	undoReturns    bool
	sweepRepeats   bool // one that was granted on a repeat is released once more after its not-after
	sweepReentries bool // so is one that was re-entered without a reply
	sweepFromSend  bool // … if that had not passed when the release was sent; without: when its reply came

	// Trust and losses.

	trustFromSend   bool // trust is counted from the moment of sending; without: from the reply
	margin          bool // trust ends before the server's key can
	returnLateGrant bool // a grant that comes after its trust has ended is given back
	firstMissIsLoss bool // a first release that finds nothing is ErrLost
	nextMissIsDone  bool // a repeated release that finds nothing is a success
}

// allRules is the design.
func allRules() rules {
	return rules{
		freshOwner: true, serialised: true, targetCounts: true, neverRecreate: true, notAfter: true, notAfterToo: true,
		ceilings: true, skipNumbers: true, freshNumbers: true, keepNumbers: true,
		restOfOwner: true, oneRelease: true, awaitTurn: true, correctLoss: true, oweInTurn: true,
		doubtRefusal: true, undoAtOnce: true, undoAgain: true, undoOwn: true, undoReturns: true,
		sweepRepeats: true, sweepReentries: true, sweepFromSend: true,
		trustFromSend: true, margin: true, returnLateGrant: true, firstMissIsLoss: true, nextMissIsDone: true,
	}
}

// Times.
const (
	tick       = 10 * time.Second
	leaseTicks = 3 // the key's life after the last acquire or re-entry that was executed
	openFor    = 1 // ticks from the sending of an acquire to its not-after
	safety     = 1 // ticks by which trust ends before the lease
	forever    = time.Duration(1<<63 - 1)
)

// bounds keep the search finite, and choose what it is about.
type bounds struct {
	kind   kind
	locks  [2]int8 // acquisitions of each goroutine
	faults int8    // requests or replies lost in all; unlimited: any number
	strays int8    // requests without a reply that the network keeps at one moment, maxStrays at most
	alone  bool    // nobody else: no X, no force unlock
	strict bool    // what the rules do not promise counts as a violation, too: see TestNotPromised
}

// A kind is what the goroutines do.
type kind int8

const (
	plain  kind = iota // they take the exclusive half, from nothing
	beside             // they take the shared half, while a third one has the exclusive one from the beginning
	shared             // they take the shared half, which one of them has from the beginning
)

const (
	maxStrays = 2
	unlimited = 99
)
