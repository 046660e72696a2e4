package replaymodel_test

// rules are what a session and its scripts keep to. Every field is one rule; false takes it out.
type rules struct {
	// Requests.

	freshOwner    bool // each outermost acquisition has a wire owner of its own, never used again
	serialised    bool // one operation in flight per name and wire owner; the others wait
	targetCounts  bool // a request carries the count to reach; without: the change is made only from the expected count
	neverRecreate bool // a re-entry (target above 1) finds the lock or fails; it never creates it
	notAfter      bool // an outermost acquire executed later than its not-after refuses itself
	notAfterToo   bool // so does a re-entry

	// Acquisitions whose outcome is in doubt.

	doubtRefusal bool // a refused repeat says nothing about the attempt before it: the acquisition is given up, not over
	undoAtOnce   bool // a given-up acquisition is undone at once
	undoAgain    bool // … and once more after its not-after
	sweepRepeats bool // so is one that was granted on a repeat, if its hold has ended by then

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
		doubtRefusal: true, undoAtOnce: true, undoAgain: true, sweepRepeats: true,
		trustFromSend: true, margin: true, returnLateGrant: true, firstMissIsLoss: true, nextMissIsDone: true,
	}
}

// Times, in ticks of a third of a lease.
const (
	lease   = 3 // the key's life after the last acquire or re-entry that was executed
	openFor = 1 // ticks from the sending of an acquire to its not-after
	safety  = 1 // the margin by which trust ends before the lease
)

// bounds keep the search finite, and choose what it is about.
type bounds struct {
	locks  [2]int8 // acquisitions of each goroutine, maxOwners in all at most
	strays int8    // requests without a reply that the network keeps at one moment, maxStrays at most
	alone  bool    // nobody else: no X, no force unlock
	strict bool    // what the rules do not promise counts as a violation, too: see TestNotPromised
}

const (
	maxOwners = 3
	maxStrays = 2
)

// trustFor is how many ticks a hold is trusted, counted from the moment that trustFromSend names.
func (r rules) trustFor() int8 {
	if r.margin {
		return lease - safety
	}
	return lease
}
