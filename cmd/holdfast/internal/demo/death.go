package demo

import (
	"fmt"
	"time"
)

// timely says whether what somebody held who died came back when it should, so long after: the
// lease had been renewed a third of it before, at the longest.
func timely(who string, after, lease time.Duration) error {
	switch {
	case after < lease/2:
		return fmt.Errorf("what a dead %s held came back after %s, too early for a lease of %s", who, human(after), human(lease))
	case after > lease+allowance:
		return fmt.Errorf("what a dead %s held came back after %s, which should be %s at most", who, human(after), human(lease))
	}
	return nil
}
