package model_test

// lineRules are the rules of sessions that stand in a line on the server, and of its scripts. False drops one.
type lineRules struct {
	// Scripts.

	standsOnce  bool // only the first call of a wire owner puts it into the line; without: a later one does, too
	ownRelease  bool // a release gives back what its own wire owner has
	skipUnheard bool // a release skips waiters whom its message does not reach
	leavesLine  bool // the undo of a waiter takes it out of the line
	leavesLock  bool // … and gives back what it was handed
	tellsFree   bool // a release that leaves the lock to anybody tells the first in the line
	tellsFirst  bool // a waiter that leaves as the first has the next one told
	dropsDead   bool // while another has the lock who does not know the line, the dead at its head are dropped
	listens     bool // … and its first hears when that one releases

	// Messages.

	ownMessage   bool // a message is for the request whose wire owner it names
	fromStood    bool // trust is counted from the last call that has found the request waiting; without: from the message
	stoodReplied bool // … and whose reply has come; without: from the last call
	confirms     bool // if that trust is over, a call finds out; without: it is counted from the message
	handedMargin bool // trust ends before the lease that the release has granted
	looksAgain   bool // a message that comes while a call is in flight is followed by another call
	mailFirst    bool // a message is read before the next call is sent; without: it may be taken for a later one

	// Requests.

	newPlace      bool // a request without a place is followed by one under another wire owner; without: it waits on
	undoesPlaces  bool // a waiter that gives up is undone
	undoesAgain   bool // … and once more when no copy of its calls can come any more
	keepsCopies   bool // what is known of copies stays with a grant that a message has told of
	rechecksLine  bool // when a hold's wire owner is given back once more, it leaves the line, too
	leaseOfCalls  bool // a grant is taken to last as long as the lease that copies of its calls would give it
	bequeaths     bool // a call that is handed the lock inside the session leaves its place to the next call
	bequeathsTime bool // … and since when it has stood there; without: the next one counts from its own beginning
	givesUpEstate bool // … but gives it up if there is no next one

	fairRules
}

// allLineRules is the design.
func allLineRules() lineRules {
	return lineRules{
		standsOnce: true, ownRelease: true, skipUnheard: true, leavesLine: true, leavesLock: true,
		tellsFree: true, tellsFirst: true, dropsDead: true, listens: true,
		ownMessage: true, fromStood: true, stoodReplied: true, confirms: true, handedMargin: true, looksAgain: true,
		mailFirst: true,
		newPlace:  true, undoesPlaces: true, undoesAgain: true, keepsCopies: true, rechecksLine: true,
		leaseOfCalls: true, bequeaths: true, bequeathsTime: true, givesUpEstate: true,
	}
}

// handedTicks is the lease with which a release hands the lock to the next. The others are as in the other worlds.
const handedTicks = 2

// lineBounds keep the search finite, and choose its subject.
type lineBounds struct {
	calls  [2]int8 // of each session; the first one has the lock from the beginning
	theirs bool    // it does not: others have it
	draws  [2]int8 // wire owners of each, wiresEach at most
	lives  int8    // ticks for which a waiter is taken to be alive after its last call; 0: one
	wakes  bool    // those who wait must hear of a free lock
	inside bool    // calls of a session wait also while it has the lock, and are handed it there
	java   bool    // others take and release the lock who do not know the line
	deaf   bool    // the server does not know who hears a message
	faults int8    // requests, replies or subscriptions lost
	strays int8    // requests without a reply that the network keeps at a time, 4 at most
	force  int8    // how often the lock is freed by force
	evicts int8    // how often the server drops the line, or what it knows of who is alive there
	kills  int8    // how many sessions die
	fails  int8    // how often the server fails over to one that lacks the last write

	fairBounds
}
