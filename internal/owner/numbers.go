package owner

// numbers are the hold counts of a shared half that were asked for under the present wire owner.
// The server numbers its holds, and the wire owner lives on when the half is given back beside the
// other one. So a release that is executed late could take away a newer hold: where one may be under
// way, holds get higher numbers than that release knows of.
type numbers struct {
	top     int  // the highest so far; 0 stands for 1
	floor   int  // a release may yet be executed that knows of numbers up to this one
	emptied bool // since the last grant the server was told that nothing is left, or will be
}

// next is the number of a hold that is to be taken besides count others.
func (n *numbers) next(count int) int {
	number := max(count, n.floor) + 1
	n.top = max(n.top, number)
	return number
}

// highest is the highest number that a hold may have.
func (n *numbers) highest() int { return max(n.top, 1) }

// doubt records that a release of all numbers so far may be executed at any time from now on.
func (n *numbers) doubt() { n.floor = n.highest() }
