/// The rows that the editor wants to see on the screen, the first one being where the prompt starts.
struct Frame: Equatable {
    var rows: [[Cell]] = [[]]
    /// The cursor: an index into `rows`, and a column below the width of the screen.
    var cursorRow = 0
    var cursorColumn = 0
}
