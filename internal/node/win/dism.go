package win

// DISMCommand is the first argument of a process that calls DISM for its parent. Each program that uses System of Host must pass the other arguments
// to DISM before it does anything else.
const DISMCommand = "dism"
