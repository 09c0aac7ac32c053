package win

// DISMCommand is the first argument of a process that asks DISM for its parent. Each program that uses System of Host hands the others to DISM,
// before it does anything else.
const DISMCommand = "dism"
