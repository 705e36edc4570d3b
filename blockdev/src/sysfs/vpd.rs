//! The pages in which a SCSI unit says what it is.

use super::attributes::visible;
use crate::device::{Designator, DesignatorKind};

/// Both pages begin with four bytes, the last two of which are the length of the rest.
const HEADER: usize = 4;

/// The rest of a page, as long as the page says it is.
fn rest(page: &[u8]) -> Option<&[u8]> {
    let [_, _, high, low] = *page.first_chunk::<HEADER>()?;
    let length = usize::from(u16::from_be_bytes([high, low]));
    let rest = page.get(HEADER..)?;
    Some(rest.get(..length).unwrap_or(rest))
}

/// The serial number of page 80.
pub(super) fn serial(page: &[u8]) -> Option<String> {
    visible(rest(page)?)
}

/// The designators of the logical unit in page 83. What is cut off or about a port is left out.
pub(super) fn designators(page: &[u8]) -> Vec<Designator> {
    let mut found = Vec::new();
    let mut left = rest(page).unwrap_or_default();
    while let Some([coding, about, _, length]) = left.first_chunk::<HEADER>().copied() {
        let length = usize::from(length);
        let Some(value) = left.get(HEADER..HEADER + length) else {
            break;
        };
        left = left.get(HEADER + length..).unwrap_or_default();
        if (about >> 4) & 0b11 != 0 {
            continue;
        }
        let kind = match about & 0b1111 {
            0 => DesignatorKind::VendorSpecific,
            1 => DesignatorKind::T10,
            2 => DesignatorKind::Eui64,
            3 => DesignatorKind::Naa,
            8 => DesignatorKind::ScsiName,
            other => DesignatorKind::Other(other),
        };
        let binary = coding & 0b1111 == 1;
        let value = if binary {
            Some(value.iter().map(|byte| format!("{byte:02x}")).collect())
        } else {
            visible(value)
        };
        if let Some(value) = value.filter(|value: &String| !value.is_empty()) {
            found.push(Designator { kind, value });
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(rest: &[u8]) -> Vec<u8> {
        let length = u16::try_from(rest.len()).unwrap().to_be_bytes();
        [&[0, 0x83, length[0], length[1]], rest].concat()
    }

    #[test]
    fn designators_of_the_unit_are_read() {
        let naa = [0x01, 0x03, 0, 8, 0x50, 0x00, 0xc5, 0x00, 0xa1, 0xb2, 0xc3, 0xd4];
        let t10 = [&[0x02, 0x01, 0, 12][..], b"Google  disk"].concat();
        let port = [0x61, 0x93, 0, 8, 1, 2, 3, 4, 5, 6, 7, 8];
        let page = page(&[&naa[..], &t10, &port].concat());
        let kinds: Vec<_> = designators(&page)
            .into_iter()
            .map(|d| (d.kind, d.value))
            .collect();
        let expected = [
            (DesignatorKind::Naa, "5000c500a1b2c3d4".to_owned()),
            (DesignatorKind::T10, "Google  disk".to_owned()),
        ];
        assert_eq!(kinds, expected);
    }

    #[test]
    fn what_is_cut_off_is_left_out() {
        let whole = page(&[0x01, 0x03, 0, 8, 1, 2, 3, 4, 5, 6, 7, 8]);
        for end in 0..whole.len() {
            assert_eq!(designators(&whole[..end]), [], "{end}");
        }
        assert_eq!(serial(b"\0\x80\0\x05gammaXX"), Some("gamma".to_owned()));
        assert_eq!(serial(b"\0\x80\0\x05gam"), Some("gam".to_owned()));
        assert_eq!(serial(b"\0\x80"), None);
    }
}
