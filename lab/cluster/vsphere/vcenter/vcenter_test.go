//go:build linux

package vcenter

import "testing"

func TestVirtualMachinesReportGuestData(t *testing.T) {
	s, err := Start(t.Context(), "lab")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.Clone(t.Context(), "one"); err != nil {
		t.Fatal(err)
	}
	all, err := s.machines(t.Context())
	if err != nil || len(all) != 1 || all[0].name != "one" || !all[0].on || all[0].hostName != "" {
		t.Fatalf("got virtual machines %+v (error %v), want one that is on, without a guest", all, err)
	}
	if err := all[0].report(t.Context(), "WIN-ONE", "192.0.2.1"); err != nil {
		t.Fatal(err)
	}
	if hostName, address, err := s.Guest(t.Context(), "one"); hostName != "WIN-ONE" || address != "192.0.2.1" || err != nil {
		t.Errorf("got guest %s at %s (error %v), want WIN-ONE at 192.0.2.1", hostName, address, err)
	}
}

func TestLittleEndianReversesFirstThreeFields(t *testing.T) {
	if got, want := littleEndian("01020304-0506-0708-090a-0b0c0d0e0f10"), "04030201-0605-0807-090a-0b0c0d0e0f10"; got != want {
		t.Errorf("got UUID %s, want %s", got, want)
	}
}
