package registry_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/holdfast-go/holdfast/internal/registry"
)

func TestKeysComeAndGo(t *testing.T) {
	keys := []string{"a", "b", "c"}
	for _, gone := range keys {
		for _, then := range keys {
			var f registry.Few[string, int]
			for i, key := range keys {
				f.Remove(key)
				assert.Zero(t, f.Get(key))
				f.Put(key, i+1)
			}
			f.Remove(gone)
			f.Remove(then)
			f.Put(then, 4)
			for i, key := range keys {
				want := i + 1
				switch key {
				case then:
					want = 4
				case gone:
					want = 0
				}
				assert.Equal(t, want, f.Get(key), "%s without %s, then %s", key, gone, then)
			}
		}
	}
}

func TestOneKeyCostsNoAllocation(t *testing.T) {
	var f registry.Few[string, int]
	assert.Zero(t, testing.AllocsPerRun(10, func() {
		f.Put("a", 1)
		f.Remove("a")
	}))
}
