package rwreplaymodel_test

// rules are what a session and its scripts keep to. Every field is one rule; false takes it out.
type rules struct {
	// Numbers.

	ceilings     bool // a release of the read half carries the highest number asked for; a higher count is newer, and stays
	skipNumbers  bool // where a release may be under way, holds ask for numbers above those that it knows of
	freshNumbers bool // so does an attempt that is repeated; without: it keeps its number
	keepNumbers  bool // a release that leaves holds leaves such a number; without: as many as there are

	// Releases.

	serialised  bool // one operation in flight per wire owner; the others wait
	oneTenure   bool // the holds under a wire owner are one tenure, even if there were none in between; without: each first one begins another
	restOfOwner bool // a release leaves what the wire owner has; without: what its own tenure has
	awaitTurn   bool // a release that has had no turn in time is made in its turn all the same; without: at once
	oweInTurn   bool // what a release without a reply owes is decided while it has its turn; without: when others may have had theirs

	// Acquisitions whose outcome is in doubt.

	notAfter       bool // an acquisition executed later than its not-after refuses itself
	undoAtOnce     bool // one that is given up is undone at once
	undoAgain      bool // … and once more after its not-after
	undoOwn        bool // an undo has the number of its own acquisition as its ceiling; without: the highest
	undoReturns    bool // an undo may take along what has ended already: its release then finds nothing, and has not lost it
	sweepRepeats   bool // the last release is repeated after the not-after of a granted acquisition's earlier attempts
	sweepReentries bool // … and after that of a re-entry without a reply
	sweepFromSend  bool // … if that had not passed when the release was sent; without: when its reply came
}

// allRules is the design.
func allRules() rules {
	return rules{
		ceilings: true, skipNumbers: true, freshNumbers: true, keepNumbers: true,
		serialised: true, oneTenure: true, restOfOwner: true, awaitTurn: true, oweInTurn: true,
		notAfter: true, undoAtOnce: true, undoAgain: true, undoOwn: true, undoReturns: true,
		sweepRepeats: true, sweepReentries: true, sweepFromSend: true,
	}
}

// bounds keep the search finite.
type bounds struct {
	locks  [2]int8 // read acquisitions of each goroutine
	faults int8    // requests or replies lost in all
	strays int8    // requests without a reply that the network keeps at one moment, maxStrays at most
	reads  bool    // g0 begins with a read hold of its own, and nobody of the session writes
}

const (
	maxStrays = 2
	maxDebts  = 8
	maxFixes  = 4
	openFor   = 1 // ticks from the sending of an acquisition to its not-after
)
