// SPDX-License-Identifier: Apache-2.0

package systemd

import (
	"context"
	"reflect"
	"time"

	manager "github.com/coreos/go-systemd/v22/dbus"
	"github.com/godbus/dbus/v5"

	"github.com/lastgood/lastgood/activation"
)

// signalBacklog keeps godbus from starting a goroutine for each signal that
// arrives during a look.
const signalBacklog = 256

// Watch sends the unit's state now and after each change until ctx ends; then
// the channel is closed. States between two receives are merged: the newest
// arrives. Every start has an InvocationID of its own, and every automatic one
// counts in NRestarts, so a crash in between still shows. Connections that
// break are made anew without a word.
func (s *Service) Watch(ctx context.Context) (<-chan activation.Unit, error) {
	w := &watch{name: s.name, dial: s.dial}
	first, err := w.look(ctx)
	if err != nil {
		return nil, explain("watch "+s.name, err)
	}
	states := make(chan activation.Unit)
	go w.run(ctx, first, states)
	return states, nil
}

// watch belongs to one goroutine. It has a connection of its own, because over
// the bus a subscription lasts as long as its connection.
type watch struct {
	name    string
	dial    dialer
	path    dbus.ObjectPath // of the unit itself, where name is an alias
	id      string          // likewise
	link    *link           // nil while the manager is away
	signals chan *dbus.Signal
}

func (w *watch) run(ctx context.Context, newest activation.Unit, states chan<- activation.Unit) {
	defer close(states)
	defer w.drop()
	timer := time.NewTimer(safetyPause)
	defer timer.Stop()
	var sent activation.Unit
	for {
		send := states
		if reflect.DeepEqual(newest, sent) {
			send = nil
		}
		select {
		case <-ctx.Done():
			return
		case send <- newest:
			sent = newest
			continue
		case signal, open := <-w.signals:
			if open && !w.concerns(signal) {
				continue
			}
		case <-timer.C:
		}
		unit, err := w.look(ctx)
		if err != nil {
			timer.Reset(pollPause)
			continue
		}
		newest = unit
		timer.Reset(safetyPause)
	}
}

// look reads the state, and connects first where there is no connection.
func (w *watch) look(ctx context.Context) (activation.Unit, error) {
	if w.link == nil {
		if err := w.subscribe(ctx); err != nil {
			return activation.Unit{}, err
		}
	}
	p, err := w.link.GetAllPropertiesContext(ctx, w.name)
	if err != nil {
		w.drop()
		return activation.Unit{}, err
	}
	unit := properties(p).unit()
	w.id, w.path = unit.Name, unitPath(unit.Name)
	return unit, nil
}

// subscribe has to come before the look whose changes it is to tell of. On the
// private socket the manager sends all signals unasked, and go-systemd ignores
// that there is no bus to refuse them.
func (w *watch) subscribe(ctx context.Context) error {
	l, err := open(ctx, w.dial)
	if err != nil {
		return err
	}
	signals := make(chan *dbus.Signal, signalBacklog)
	l.signals.Signal(signals)
	// Subscribe takes no context; closing is what ends it.
	stop := context.AfterFunc(ctx, l.close)
	defer stop()
	if err := l.Subscribe(); err != nil {
		l.close()
		return err
	}
	w.link, w.signals = l, signals
	return nil
}

func (w *watch) drop() {
	if w.link != nil {
		w.link.close()
	}
	w.link, w.signals = nil, nil
}

// concerns picks the signals after which the unit may look different. A unit
// that was not loaded tells of its start with its job only: UnitNew would not
// do, since each look at such a unit causes one.
func (w *watch) concerns(signal *dbus.Signal) bool {
	switch signal.Name {
	case "org.freedesktop.DBus.Properties.PropertiesChanged":
		return signal.Path == w.path
	case "org.freedesktop.systemd1.Manager.JobRemoved":
		return len(signal.Body) > 2 && signal.Body[2] == w.id
	}
	return false
}

// unitPath is the D-Bus object of a unit, loaded or not.
func unitPath(id string) dbus.ObjectPath {
	return dbus.ObjectPath("/org/freedesktop/systemd1/unit/" + manager.PathBusEscape(id))
}
