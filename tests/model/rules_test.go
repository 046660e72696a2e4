package model_test

import "time"

// rules are the rules of a session and its scripts. Those of the session are package owner's. Every field is one
// rule; false drops it: the model then ignores what the package has decided, or tells it something else.
type rules struct {
	// Requests.

	freshOwner    bool // each outermost acquisition has its own wire owner, never used again
	serialised    bool // one operation in flight per claim; the others wait
	targetCounts  bool // a request carries the count to reach; without: it changes the count only from the expected one
	neverRecreate bool // a re-entry finds the lock or fails; it never creates it
	notAfter      bool // an outermost acquire or a trim executed later than its not-after refuses itself
	notAfterToo   bool // so does a re-entry
	notBefore     bool // so does a trim that is executed too early, by a clock that was set back

	// Numbers of the holds of a shared half.

	ceilings     bool // a release carries the highest number asked for; a higher count is newer, and stays
	skipNumbers  bool // where a release may be in flight, holds ask for numbers above those that it knows
	freshNumbers bool // so does a repeated attempt; without: it keeps its number
	keepNumbers  bool // a release that leaves holds leaves such a number; without: their count

	// Releases.

	restOfOwner  bool // a release leaves what the wire owner has; without: what its own grant has
	oneRelease   bool // a release that finds nothing was forestalled by that of another grant under the same wire owner
	awaitTurn    bool // a release that got no turn in time is still made in its turn; without: at once
	correctLoss  bool // a correction that finds nothing ends the holds that are left
	doubtRefused bool // a release that was refused, and is owed, may be executed at any time
	missInTurn   bool // what copies may bring back of a lost shared half is given back in turn; without: out of turn
	oweCopies    bool // what a release without a reply leaves is owed although a renewal has found nothing since
	oweInTurn    bool // what a release without a reply leaves is decided while it has its turn; without: afterwards

	// Acquisitions whose outcome is in doubt.

	doubtRefusal bool // a refused repeat says nothing about the attempt before it
	undoAtOnce   bool // a given-up acquisition is undone at once
	undoAgain    bool // … and once more after its not-after
	undoOwn      bool // an undo has its own acquisition's number as its ceiling; without: the highest
	// An undo may also release what has already ended; the release of that then finds nothing, which is no loss.
	undoReturns    bool
	sweepRepeats   bool // an acquisition that was granted on a repeat is released once more after its not-after
	sweepReentries bool // so is one that was re-entered without a reply
	sweepFromSend  bool // … if that had not passed when the release was sent; without: when its reply came

	// Trims, and what else sets how long a lease lasts.

	asked         bool // a trim goes not below what Extend, which takes no turns, is asking for
	refuseLonger  bool // while a trim may be executed, no longer lease is asked for than it leaves
	keepDoubt     bool // also if a later trim has had its reply meanwhile
	waitLonger    bool // after a trim without a reply, its not-after is waited for with some time to spare
	wholeLease    bool // while anything is renewed, a trim leaves a whole lease of the session's
	lengthInDoubt bool // a call for a lease that had no reply may have made it longer

	// Trust and losses.

	trustFromSend   bool // trust is counted from the moment of sending; without: from the reply
	margin          bool // trust ends before the server's key can
	returnLateGrant bool // a grant that comes after its trust has ended is given back
	firstMissIsLoss bool // a first release that finds nothing is ErrLost
	nextMissIsDone  bool // a repeated release that finds nothing is a success

	// Hand-overs. The first nine are about what passes on.

	passLast       bool // it is the only live hold of its grant
	passUndetached bool // none is detached
	passUnlost     bool // none was lost
	passUnreturned bool // no release of the last one was sent, or may have been
	passTrusted    bool // it is trusted
	passThere      bool // its lease is not over, nor has the server said that it has nothing of it
	passAlone      bool // its owner has no other call
	passIdle       bool // its claim has no operation in flight
	passCopies     bool // what is known of copies of the acquisition passes on with it
	heirUndoes     bool // the heir gives up what its own attempts may have left
	heirAlone      bool // the heir's owner has no other call
	heirIdle       bool // the heir's own claim has no operation in flight
	heirRefuses    bool // to a call that is granted a lock, what it was handed besides is lost
}

// allRules is the design.
func allRules() rules {
	return rules{
		freshOwner: true, serialised: true, targetCounts: true, neverRecreate: true, notAfter: true, notAfterToo: true,
		ceilings: true, skipNumbers: true, freshNumbers: true, keepNumbers: true,
		restOfOwner: true, oneRelease: true, awaitTurn: true, correctLoss: true,
		missInTurn: true, oweCopies: true, oweInTurn: true,
		doubtRefused: true,
		doubtRefusal: true, undoAtOnce: true, undoAgain: true, undoOwn: true, undoReturns: true,
		sweepRepeats: true, sweepReentries: true, sweepFromSend: true,
		notBefore: true, asked: true, refuseLonger: true, keepDoubt: true, waitLonger: true,
		wholeLease: true, lengthInDoubt: true,
		trustFromSend: true, margin: true, returnLateGrant: true, firstMissIsLoss: true, nextMissIsDone: true,
		passLast: true, passUndetached: true, passUnlost: true, passUnreturned: true, passTrusted: true, passThere: true,
		passAlone: true, passIdle: true, passCopies: true, heirUndoes: true, heirAlone: true, heirIdle: true,
		heirRefuses: true,
	}
}

// Times.
const (
	tick       = 10 * time.Second
	leaseTicks = 3  // how long the key lives after the last acquisition, re-entry or renewal that was executed
	longTicks  = 4  // a longer lease
	openFor    = 1  // ticks from the sending of an acquire to its not-after
	trimFor    = 2  // from the sending of a trim to its not-after
	always     = 99 // a time that does not pass
	safety     = 1  // ticks by which trust ends before the lease
	forever    = time.Duration(1<<63 - 1)
)

// bounds keep the search finite, and choose its subject.
type bounds struct {
	kind   kind
	locks  [2]int8 // acquisitions of each goroutine
	other  int8    // of another owner's goroutine; 0: there is none
	held   bool    // the first one has the lock from the beginning, and the other owner's waits for it
	detach bool    // holds may be detached
	force  bool    // there is no X, but an operator
	faults int8    // requests or replies lost in all; unlimited: any number
	strays int8    // requests without a reply that the network keeps at a time, maxStrays at most
	alone  bool    // there is nobody else: no X, no force unlock
	renew  int8    // how often the shared half is renewed

	// Of leases:
	length  [2]int8 // of the goroutines' holds
	watched [2]bool // which of them are renewed
	extends int8    // how often any of them is extended to a long lease
	setBack int8    // ticks by which the server's clock is set back, once; always: by more than any request takes
	slack   bool    // the session must know of every lease that is too long; only if the clock is not set back

	strict bool // what the rules do not promise counts as a violation, too: see TestNotPromised
}

// A kind is what the goroutines do.
type kind int8

const (
	plain  kind = iota // they take the exclusive half, from nothing
	beside             // they take the shared half, while a third goroutine has the exclusive one from the beginning
	shared             // they take the shared half, which one of them has from the beginning
	leases             // they take the exclusive half, which one of them has from the beginning, for different times
)

// endless: no lease runs out.
func (k kind) endless() bool { return k == beside || k == shared }

const (
	maxStrays = 2
	unlimited = 99
)
