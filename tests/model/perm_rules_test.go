package model_test

// permRules are the rules of sessions that stand in the line of a semaphore, and of its scripts. False drops one.
type permRules struct {
	// Scripts.

	behind      bool // a newcomer takes only what those in the line leave
	inOrder     bool // so does a waiter, of those in front of it
	plainBehind bool // so does a call that cannot stand yet
	tellsRoom   bool // all for whom there is room are told; without: the first alone
	tellsFront  bool // a call that finds no room tells those in front, too
	skipUnheard bool // whoever does not hear is taken out of the line, and the next one is told
	probes      bool // … likewise whoever does not hear, and for whom there is no room, if it is in others' way
	lowers      bool // whoever was told is taken for dead if it does not look soon
	dropsDead   bool // who is taken for dead does not count
	leaves      bool // who gives up is taken out of the line
	leaveTells  bool // … and those behind are told
	standsAgain bool // a waiter that has lost its place stands anew; without: it waits on
	findsIDs    bool // a call whose ids are taken already is granted, whoever stands in front
	othersHear  bool // what comes back is published if anybody listens who does not stand in the line
	allHear     bool // … as the message of X is heard by all who stand there; without: by the first
	looksThen   bool // who begins to hear X looks
	marksStand  bool // who stands in the line of a lock sees to it that who frees that knows it
	marksFree   bool // … and so does who frees it, if some stand there still
	readerTells bool // a reader that goes tells the first writer

	// Sessions.

	channelFirst bool // it is counted with the others until they cannot be taken for it; without: the other way round
	looksAgain   bool // a message that comes while a call is in flight is followed by another call
	leavesAgain  bool // a place is left once more when no copy of its calls can come any more
	nextStands   bool // the next call of the session calls at once; without: it waits to be told
	givesBack    bool // what a call takes after its caller has given up is given back
}

// allPermRules is the design.
func allPermRules() permRules {
	return permRules{
		behind: true, inOrder: true, plainBehind: true, tellsRoom: true, tellsFront: true, skipUnheard: true, probes: true,
		lowers: true, dropsDead: true, leaves: true, leaveTells: true, standsAgain: true, findsIDs: true,
		othersHear: true, allHear: true, looksThen: true,
		marksStand: true, marksFree: true, readerTells: true,
		channelFirst: true, looksAgain: true, leavesAgain: true, nextStands: true, givesBack: true,
	}
}

// permBounds keep the search finite, and choose its subject.
type permBounds struct {
	free    int8      // permits from the beginning
	wants   permWants // how many permits each call wants; 0: there is none
	java    int8      // how many X wants; 0: there is no X
	turns   int8      // how often
	listens bool      // sessions listen to Redisson's channel though there is no X
	ids     bool      // permits have ids and leases, and a call can be repeated
	faults  int8      // requests, replies or subscriptions lost
	strays  int8      // requests without a reply that the network keeps at a time
	evicts  int8      // how often the server drops the line, or what it knows of who is alive
	kills   int8      // how many sessions die
	freezes int8      // how many stop for a while
	closes  int8      // how many close
	fails   int8      // how often the server fails over to one that lacks the last write
	sizes   int8      // how often the semaphore is deleted, or gets a permit more
	silent  bool      // no session is subscribed at first
	writers bool      // the one permit is a read-write lock, X reads or writes, and only the first in the line hears X
	reader  bool      // X knows the line
}

type permWants [permSessions][callsOfOne]int8

const (
	permSessions = 3
	callsOfOne   = 2
)
