package configure

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/windows-machine-config/wmco/internal/node/daemon/state"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/shared/wicdapi"
)

// excludedFile lists the exclusions that WICD added to Microsoft Defender. Others are never removed.
const excludedFile = desired.State + `\exclusions.json`

// exclusions manages the exclusions of Microsoft Defender.
type exclusions struct {
	work
	wanted desired.Exclusions
}

// errExclusions is the class of errors caused by Defender or its management. The host works without exclusions.
var errExclusions = errors.New("setting exclusions of Microsoft Defender")

// try sets the wanted exclusions. If Defender does not allow it, the failure is recorded and the host joins anyway.
func (e exclusions) try(ctx context.Context) error {
	err := e.set(ctx)
	if errors.Is(err, errExclusions) && ctx.Err() == nil {
		e.recordSkip("%v", err)
		e.notify(wicdapi.Step{Name: e.step + ": none: " + err.Error()})
		return nil
	}
	return err
}

// set removes WICD's surplus exclusions and adds missing ones.
func (e exclusions) set(ctx context.Context) error {
	added, err := e.added()
	if err != nil {
		return err
	}
	surplus := added.Without(e.wanted)
	added = added.Without(surplus)
	return errors.Join(e.drop(ctx, surplus, added), e.add(ctx, added))
}

// drop removes exclusions that WICD added, and records the others.
func (e exclusions) drop(ctx context.Context, surplus, others desired.Exclusions) error {
	if surplus.IsEmpty() {
		return nil
	}
	if err := e.Defender.Remove(ctx, surplus); err != nil {
		return fmt.Errorf("%w: removing %s: %w", errExclusions, strings.Join(surplus.List(), ", "), err)
	}
	e.recordExclusions(surplus, "removed")
	return e.storeAdded(others)
}

// add adds missing exclusions. They are recorded before they are added, so that an interruption leaves no exclusion without a record.
func (e exclusions) add(ctx context.Context, added desired.Exclusions) error {
	if e.wanted.IsEmpty() {
		return nil
	}
	current, err := e.Defender.Exclusions(ctx)
	if err != nil {
		return fmt.Errorf("%w: %w", errExclusions, err)
	}
	missing := e.wanted.Beyond(current)
	if missing.IsEmpty() {
		return nil
	}
	if err := e.storeAdded(added.And(missing)); err != nil {
		return err
	}
	if err := e.Defender.Add(ctx, missing); err != nil {
		return fmt.Errorf("%w: %w", errExclusions, err)
	}
	return e.verify(ctx, missing)
}

// verify checks that the added exclusions are in force: policies and tamper protection can prevent that without an error.
func (e exclusions) verify(ctx context.Context, added desired.Exclusions) error {
	current, err := e.Defender.Exclusions(ctx)
	if err != nil {
		return fmt.Errorf("%w: %w", errExclusions, err)
	}
	ineffective := added.Beyond(current)
	e.recordExclusions(added.Without(ineffective), "added")
	if ineffective.IsEmpty() {
		return nil
	}
	return fmt.Errorf("%w: a policy or tamper protection overrides the added exclusions: %s",
		errExclusions, strings.Join(ineffective.List(), ", "))
}

func (e exclusions) recordExclusions(changed desired.Exclusions, verb string) {
	for _, exclusion := range changed.List() {
		e.recordChange("Defender exclusion %s %s", exclusion, verb)
	}
}

// remove removes the exclusions that WICD added.
func (e exclusions) remove(ctx context.Context) error {
	added, err := e.added()
	if err == nil {
		err = e.drop(ctx, added, desired.Exclusions{})
	}
	if errors.Is(err, errExclusions) && ctx.Err() == nil {
		e.remains.note("%v", err)
		return nil
	}
	return err
}

// added returns the exclusions that WICD added.
func (e exclusions) added() (desired.Exclusions, error) {
	return readRecorded[desired.Exclusions](e.work, excludedFile, "exclusions that Defender has now stay")
}

func (e exclusions) storeAdded(added desired.Exclusions) error {
	if added.IsEmpty() && !e.Disk.Exists(excludedFile) {
		return nil
	}
	return state.WriteJSON(e.Disk, excludedFile, added)
}

// adopt records exclusions of others as WICD's.
func (e exclusions) adopt(others desired.Exclusions) error {
	added, err := e.added()
	if err != nil {
		return err
	}
	return e.storeAdded(added.And(others))
}
